// A dozen kernels that take different shares of a multiprocessor, and what CUDA says of each:
// REGISTERS live values, SHARED bytes of static shared memory, BARRIERS named barriers.

#include <cuda_runtime.h>

template <int REGISTERS, int SHARED, int BARRIERS>
__global__ void kernel(const float *x, float *y, int n)
{
    constexpr int held_bytes = SHARED ? SHARED : 1;
    __shared__ char held[held_bytes];
    float live[REGISTERS];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
    for (int i = 0; i < REGISTERS; ++i) live[i] = x[(at + i * 32) % n];
    for (int round = 0; round < n % 7; ++round)
#pragma unroll
        for (int i = 0; i < REGISTERS; ++i) live[i] = live[i] * live[(i + 1) % REGISTERS] + 1.0f;
    if (SHARED) {
        held[(threadIdx.x * 4) % held_bytes] = (char)live[0];
        __syncthreads();
        live[0] += held[(threadIdx.x * 4 + 4) % held_bytes];
    }
    if (BARRIERS > 1)
#pragma unroll
        for (int i = 1; i < BARRIERS; ++i)
            asm volatile("bar.sync %0, %1;" ::"r"(i), "r"(blockDim.x) : "memory");
    float sum = 0;
#pragma unroll
    for (int i = 0; i < REGISTERS; ++i) sum += live[i];
    if (at < n) y[at] = sum;
}

#define EACH(DO)                                                                         \
    DO(0, 1, 0, 1) DO(1, 16, 0, 1) DO(2, 24, 0, 1) DO(3, 40, 0, 1) DO(4, 64, 0, 1)       \
    DO(5, 96, 0, 1) DO(6, 128, 0, 1) DO(7, 200, 0, 1) DO(8, 8, 1000, 1)                  \
    DO(9, 8, 20000, 1) DO(10, 48, 48000, 1) DO(11, 8, 0, 16)

static const void *const kernels[] = {
#define ADDRESS(index, registers, shared, barriers) (const void *)kernel<registers, shared, barriers>,
    EACH(ADDRESS)
};

extern "C" int count() { return sizeof kernels / sizeof *kernels; }

// Registers, static shared bytes, largest block, most dynamic shared bytes; a CUDA error.
extern "C" int attributes(int index, int *told)
{
    cudaFuncAttributes found;
    int most, device;
    if (cudaError_t error = cudaFuncGetAttributes(&found, kernels[index])) return error;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    told[0] = found.numRegs, told[1] = (int)found.sharedSizeBytes;
    told[2] = found.maxThreadsPerBlock, told[3] = most - told[1];
    return cudaFuncSetAttribute(
        kernels[index], cudaFuncAttributeMaxDynamicSharedMemorySize, told[3]);
}

extern "C" int blocks(int index, int block, int dynamic, int *told)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(told, kernels[index], block, dynamic);
}

// One launch of each, of 128 threads a block; a CUDA error.
extern "C" int launch_all(int n)
{
    float *x, *y;
    if (cudaError_t error = cudaMalloc(&x, n * sizeof *x)) return error;
    if (cudaError_t error = cudaMalloc(&y, n * sizeof *y)) return error;
#define LAUNCH(index, registers, shared, barriers) \
    kernel<registers, shared, barriers><<<(n + 127) / 128, 128>>>(x, y, n);
    EACH(LAUNCH)
    return cudaDeviceSynchronize();
}
