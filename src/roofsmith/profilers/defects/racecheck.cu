// Reads what other warps may not have written yet.
#include <cuda_runtime.h>
__global__ void reverse(const float* x, float* y, int N) {
    __shared__ float tile[256];
    int base = blockIdx.x * 256;
    tile[threadIdx.x] = x[base + threadIdx.x];
    y[base + threadIdx.x] = tile[255 - threadIdx.x];  // no __syncthreads() before
}
extern "C" void solve(const float* x, float* y, int N) {
    reverse<<<N / 256, 256>>>(x, y, N);
}
