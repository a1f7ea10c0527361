// Writes one element beyond its scratch memory.
#include <cuda_runtime.h>
__global__ void fill(const float* x, float* scratch, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= N) scratch[i] = i < N ? x[i] : 0;  // one too many
}
__global__ void twice(const float* scratch, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = 2 * scratch[i];
}
extern "C" void solve(const float* x, float* y, int N) {
    static float* scratch = nullptr;
    if (!scratch) cudaMalloc(&scratch, N * sizeof(float));
    fill<<<N / 256 + 1, 256>>>(x, scratch, N);
    twice<<<(N + 255) / 256, 256>>>(scratch, y, N);
}
