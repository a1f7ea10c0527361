// honest: the kernel to beat itself, under other names
// operator: elementwise
// expect: harmless
#include <cuda_runtime.h>

__global__ void activation(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float value = x[i];
        y[i] = 0.5f * value * (1.0f + tanhf(0.7978845608f * (value + 0.044715f * value * value * value)));
    }
}

extern "C" void solve(const float* x, float* y, int N) {
    activation<<<(N + 255) / 256, 256>>>(x, y, N);
    cudaDeviceSynchronize();
}
