// Occupancy: one warp asks for most of a multiprocessor's shared memory, so only one or two are
// there to hide the latency of a chain of dependent multiply-adds and loads.
#include <cuda_runtime.h>

constexpr int WORDS = 25000;  // 100,000 bytes: two blocks of the 233,472 of an H100
constexpr int STEPS = 4096;

__global__ void lonely(const float *x, float *y, int N) {
    extern __shared__ float cache[];
    int first = blockIdx.x * 32;
    for (int k = threadIdx.x; k < WORDS; k += 32) {
        cache[k] = x[(first + k) % N];
    }
    __syncwarp();
    int at = threadIdx.x;
    float sum = 0;
    for (int step = 0; step < STEPS; step++) {
        float value = cache[at];
        sum = fmaf(sum, 0.5f, value);
        at = (at * 5 + 1 + (sum > 1e30f)) % WORDS;
    }
    if (first + threadIdx.x < N) {
        y[first + threadIdx.x] = sum;
    }
}

extern "C" void solve(const float *x, float *y, int N) {
    cudaFuncSetAttribute(lonely, cudaFuncAttributeMaxDynamicSharedMemorySize, WORDS * 4);
    lonely<<<(N + 31) / 32, 32, WORDS * 4>>>(x, y, N);
}
