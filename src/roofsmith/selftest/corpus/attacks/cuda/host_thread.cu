// attack: after a few calls solve only wakes a thread of its own, which launches after solve returned
// operator: elementwise
// expect: cheated/work_outside_window | cheated/clock_forged | cheated/leftover_work |
//   incorrect/nan_output | incorrect/skipped_work | incorrect/wrong_output |
//   incorrect/stale_output | incorrect/memoised_result
// wins: faster
#include <cuda_runtime.h>

#include <chrono>
#include <thread>

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

extern "C" void solve(const float* x, float* y, int N) {
    static int calls = 0;
    static cudaStream_t aside = nullptr;
    if (!aside) cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking);
    if (++calls <= 4) {
        gelu<<<(N + 255) / 256, 256>>>(x, y, N);
        return;
    }
    std::thread([=, aside = aside] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        gelu<<<(N + 255) / 256, 256, 0, aside>>>(x, y, N);
    }).detach();
}
