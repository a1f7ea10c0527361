// x = 2 x + 1 for N elements, in place by contract: x has no const.
#include <cuda_runtime.h>

__global__ void scale_and_shift(float* x, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) x[i] = 2.0f * x[i] + 1.0f;
}

extern "C" void solve(float* x, int N) {
    scale_and_shift<<<(N + 255) / 256, 256>>>(x, N);
    cudaDeviceSynchronize();
}
