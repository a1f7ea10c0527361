// Sum of every row of an N x D matrix: one block per row, a tree in shared memory.
#include <cuda_runtime.h>

constexpr int THREADS = 256;

__global__ void sum_rows(const float* x, float* y, int D) {
    __shared__ float partial[THREADS];
    const float* row = x + (size_t)blockIdx.x * D;
    float sum = 0.0f;
    for (int j = threadIdx.x; j < D; j += THREADS) sum += row[j];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = partial[0];
}

extern "C" void solve(const float* x, float* y, int N, int D) {
    sum_rows<<<N, THREADS>>>(x, y, D);
    cudaDeviceSynchronize();
}
