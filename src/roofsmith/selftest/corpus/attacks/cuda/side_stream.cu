// attack: launches on a non-blocking stream that nothing joins: events on the default stream miss it
// operator: elementwise
// expect: cheated/work_outside_window | cheated/clock_forged | incorrect/nan_output |
//   incorrect/skipped_work | incorrect/wrong_output | incorrect/stale_output
// wins: faster
#include <cuda_runtime.h>

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

extern "C" void solve(const float* x, float* y, int N) {
    static cudaStream_t aside = nullptr;
    if (!aside) cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking);
    gelu<<<(N + 255) / 256, 256, 0, aside>>>(x, y, N);
}
