// honest: starts as many blocks as fit on the device, which draw rows from a counter
// operator: softmax
#include <cuda_runtime.h>

__device__ int next_row;

__global__ void softmax_rows(const float* x, float* y, int N, int D) {
    __shared__ float partial[8];
    __shared__ int row;
    for (;;) {
        if (threadIdx.x == 0) row = atomicAdd(&next_row, 1);
        __syncthreads();
        if (row >= N) return;
        const float* in = x + (size_t)row * D;
        float* out = y + (size_t)row * D;
        float largest = -INFINITY, sum = 0.0f;
        for (int j = threadIdx.x; j < D; j += 256) largest = fmaxf(largest, in[j]);
        for (int o = 16; o; o >>= 1) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = largest;
        __syncthreads();
        for (int w = 0; w < 8; w++) largest = fmaxf(largest, partial[w]);
        __syncthreads();
        for (int j = threadIdx.x; j < D; j += 256) sum += expf(in[j] - largest);
        for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
        __syncthreads();
        sum = 0.0f;
        for (int w = 0; w < 8; w++) sum += partial[w];
        for (int j = threadIdx.x; j < D; j += 256) out[j] = expf(in[j] - largest) / sum;
        __syncthreads();
    }
}

extern "C" void solve(const float* x, float* y, int N, int D) {
    static int blocks = 0;
    if (!blocks) {
        int per_multiprocessor = 0, multiprocessors = 0;
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, softmax_rows, 256, 0);
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
        blocks = per_multiprocessor * multiprocessors;
    }
    const int zero = 0;
    cudaMemcpyToSymbolAsync(next_row, &zero, sizeof zero, 0, cudaMemcpyHostToDevice, 0);
    softmax_rows<<<blocks, 256>>>(x, y, N, D);
}
