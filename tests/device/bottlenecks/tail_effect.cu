// Tail: blocks of equal length, a few more than fit at a time, so that nearly the whole device stands
// idle for half of the time. Each block has a multiprocessor to itself, so that those of the second
// wave take as long as those of the first.
#include <cuda_runtime.h>

constexpr int STEPS = 4096;
constexpr int SHARED_BYTES = 160 * 1024;  // only to keep a second block out

__global__ void __launch_bounds__(1024, 1) rows(const float *x, float *y, int N) {
    float sum[4];
    int i = blockIdx.x * 1024 + threadIdx.x;
    for (int k = 0; k < 4; k++) {
        sum[k] = x[(i + k) % N];
    }
    for (int step = 0; step < STEPS; step++) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            sum[k] = fmaf(sum[k], 0.5f, 0.25f);
        }
    }
    y[i % N] = sum[0] + sum[1] + sum[2] + sum[3];
}

extern "C" void solve(const float *x, float *y, int N) {
    int device = 0, multiprocessors = 0, resident = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    cudaFuncSetAttribute(rows, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, rows, 1024, SHARED_BYTES);
    int blocks = multiprocessors * resident + multiprocessors / 16;
    rows<<<blocks, 1024, SHARED_BYTES>>>(x, y, N);
}
