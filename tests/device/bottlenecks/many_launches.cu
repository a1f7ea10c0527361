// Launch: a chain of kernels that each take less time than launching them.
#include <cuda_runtime.h>

constexpr int LAUNCHES = 24;

__global__ void step(const float *from, float *to, int N) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < N) {
        to[i] = 0.5f * to[i] + from[i];
    }
}

extern "C" void solve(const float *x, float *y, int N) {
    cudaMemsetAsync(y, 0, sizeof(float) * N, 0);
    for (int launch = 0; launch < LAUNCHES; launch++) {
        step<<<(N + 255) / 256, 256>>>(x, y, N);
    }
}
