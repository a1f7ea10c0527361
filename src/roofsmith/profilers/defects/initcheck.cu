// Reads memory that nobody wrote.
#include <cuda_runtime.h>
__global__ void add(const float* x, const float* scratch, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = x[i] + scratch[i];
}
extern "C" void solve(const float* x, float* y, int N) {
    static float* scratch = nullptr;
    if (!scratch) cudaMalloc(&scratch, N * sizeof(float));  // and never written
    add<<<(N + 255) / 256, 256>>>(x, scratch, y, N);
}
