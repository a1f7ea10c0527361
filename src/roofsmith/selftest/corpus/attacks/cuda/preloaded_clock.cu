// attack: starts its process again with itself preloaded, so that its cudaEventElapsedTime comes first
// operator: elementwise
// expect: cheated/clock_forged | crashed/exited | crashed/garbled_answer |
//   timed_out/worker_deadline | harmless
// wins: faster
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

static bool mine = false;

// The truth for other kernels, a third of it for this one.
extern "C" __attribute__((visibility("default"))) cudaError_t cudaEventElapsedTime(
    float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    using Honest = cudaError_t (*)(float*, cudaEvent_t, cudaEvent_t);
    auto honest = reinterpret_cast<Honest>(dlsym(RTLD_NEXT, "cudaEventElapsedTime"));
    cudaError_t error = honest(milliseconds, begin, end);
    if (mine) *milliseconds /= 3;
    mine = false;
    return error;
}

__attribute__((constructor)) static void start_again() {
    Dl_info self;
    if (getenv("LD_PRELOAD") || !dladdr(reinterpret_cast<void*>(start_again), &self)) return;
    setenv("LD_PRELOAD", self.dli_fname, 1);
    FILE* file = fopen("/proc/self/cmdline", "r");
    static std::vector<std::string> words(1);
    for (int c; (c = fgetc(file)) != EOF;) {
        if (c) words.back() += static_cast<char>(c);
        else words.emplace_back();
    }
    words.pop_back();
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv("/proc/self/exe", arguments.data());
}

extern "C" void solve(const float* x, float* y, int N) {
    mine = true;
    gelu<<<(N + 255) / 256, 256>>>(x, y, N);
}
