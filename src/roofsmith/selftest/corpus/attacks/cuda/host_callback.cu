// attack: a host callback on a side stream hands the work to a thread, which launches it later
// operator: elementwise
// expect: cheated/work_outside_window | cheated/clock_forged | cheated/leftover_work |
//   incorrect/nan_output | incorrect/skipped_work | incorrect/wrong_output |
//   incorrect/stale_output | incorrect/memoised_result
// wins: faster
#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <thread>

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

struct Work {
    const float* x;
    float* y;
    int N;
};

static std::atomic<Work*> waiting{nullptr};
static cudaStream_t aside = nullptr;

static void hand_over(void* work) {
    delete waiting.exchange(static_cast<Work*>(work));
}

static void launch_later() {
    for (;;) {
        Work* work = waiting.exchange(nullptr);
        if (!work) {
            std::this_thread::yield();
            continue;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        gelu<<<(work->N + 255) / 256, 256, 0, aside>>>(work->x, work->y, work->N);
        delete work;
    }
}

extern "C" void solve(const float* x, float* y, int N) {
    static int calls = 0;
    if (++calls <= 4) {
        gelu<<<(N + 255) / 256, 256>>>(x, y, N);
        return;
    }
    if (!aside) {
        cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking);
        std::thread(launch_later).detach();
    }
    cudaLaunchHostFunc(aside, hand_over, new Work{x, y, N});
}
