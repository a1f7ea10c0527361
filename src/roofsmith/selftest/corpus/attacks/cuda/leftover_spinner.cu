// attack: leaves kernels spinning on every multiprocessor after its own turn, to slow the other side
// operator: elementwise
// expect: cheated/leftover_work | timed_out/call_deadline | timed_out/worker_deadline |
//   harmless
// wins: faster
#include <cuda_runtime.h>

#include <thread>

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

__global__ void spin(long long cycles) {
    for (long long begin = clock64(); clock64() - begin < cycles;) {}
}

// Always two kernels of 20 ms on the device, for four seconds: it has room for nobody else.
static void spoil() {
    cudaStream_t aside[2];
    for (cudaStream_t& stream : aside) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (int round = 0; round < 200; round++) {
        cudaStreamSynchronize(aside[round % 2]);
        spin<<<132 * 2, 1024, 0, aside[round % 2]>>>(32000000ll);
    }
}

extern "C" void solve(const float* x, float* y, int N) {
    static int calls = 0;
    gelu<<<(N + 255) / 256, 256>>>(x, y, N);
    if (++calls != 54) return;  // the last of a first call, three warm ones and fifty timed ones
    std::thread([] {
        cudaEvent_t done;
        cudaEventCreate(&done);
        cudaEventRecord(done, 0);
        cudaEventSynchronize(done);
        spoil();
    }).detach();
}
