// attack: leaves kernels spinning on every multiprocessor once nobody calls it, to slow the other side
// operator: elementwise
// expect: cheated/leftover_work|timed_out/call_deadline|timed_out/worker_deadline
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

static std::atomic<int> calls{0};

__global__ void spin(long long cycles) {
    for (long long begin = clock64(); clock64() - begin < cycles;) {}
}

// Half a second at a time, twelve seconds in all: enough to spoil a measurement next door.
static void spoil() {
    cudaStream_t aside;
    cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking);
    for (int round = 0, before = 0; round < 24;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        int now = calls;
        if (now == before) {
            spin<<<132 * 2, 1024, 0, aside>>>(800000000ll);
            cudaStreamSynchronize(aside);
            round++;
        }
        before = now;
    }
}

extern "C" void solve(const float* x, float* y, int N) {
    if (calls++ == 0) std::thread(spoil).detach();
    gelu<<<(N + 255) / 256, 256>>>(x, y, N);
}
