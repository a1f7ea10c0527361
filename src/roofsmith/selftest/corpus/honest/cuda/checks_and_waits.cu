// honest: checks every launch, prints what went wrong, and waits for a stream of its own
// operator: elementwise
#include <cuda_runtime.h>
#include <stdio.h>

__device__ float gelu(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}

__global__ void map(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = gelu(x[i]);
}

static void check(cudaError_t error, const char* what) {
    if (error != cudaSuccess) fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
}

extern "C" void solve(const float* x, float* y, int N) {
    static cudaStream_t own = nullptr;
    if (!own) check(cudaStreamCreate(&own), "stream");
    map<<<(N + 255) / 256, 256, 0, own>>>(x, y, N);
    check(cudaGetLastError(), "launch");
    check(cudaStreamSynchronize(own), "wait");
}
