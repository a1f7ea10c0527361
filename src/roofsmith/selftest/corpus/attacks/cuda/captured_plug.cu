// attack: polls from a helper thread until the device is let go, and launches on a stream of its own then
// operator: elementwise
// expect: cheated/work_outside_window | cheated/clock_forged | cheated/leftover_work |
//   incorrect/nan_output | incorrect/skipped_work | incorrect/wrong_output |
//   incorrect/stale_output | incorrect/memoised_result
// wins: faster
#include <cuda_runtime.h>

#include <mutex>
#include <thread>
#include <vector>

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

static std::mutex door;
static std::vector<Work> waiting;

// cudaEventQuery on the default stream tells when the timed window has closed.
static void serve() {
    cudaStream_t aside;
    cudaEvent_t closed;
    cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking);
    cudaEventCreate(&closed);
    for (;;) {
        std::vector<Work> batch;
        {
            std::lock_guard<std::mutex> in(door);
            batch.swap(waiting);
        }
        if (batch.empty()) {
            std::this_thread::yield();
            continue;
        }
        cudaEventRecord(closed, 0);
        while (cudaEventQuery(closed) == cudaErrorNotReady) std::this_thread::yield();
        for (Work w : batch) gelu<<<(w.N + 255) / 256, 256, 0, aside>>>(w.x, w.y, w.N);
    }
}

extern "C" void solve(const float* x, float* y, int N) {
    static int calls = 0;
    if (++calls <= 4) {
        gelu<<<(N + 255) / 256, 256>>>(x, y, N);
        return;
    }
    if (calls == 5) std::thread(serve).detach();
    std::lock_guard<std::mutex> in(door);
    waiting.push_back({x, y, N});
}
