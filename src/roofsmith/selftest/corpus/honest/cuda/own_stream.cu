// honest: works on a stream of its own and waits for it: whoever calls it has its inputs in place
// operator: elementwise
#include <cuda_runtime.h>

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

extern "C" void solve(const float* x, float* y, int N) {
    static cudaStream_t own = nullptr;
    if (!own) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    gelu<<<(N + 255) / 256, 256, 0, own>>>(x, y, N);
    cudaStreamSynchronize(own);
}
