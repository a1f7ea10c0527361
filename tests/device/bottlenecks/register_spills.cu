// Memory, register spills: 96 sums of a thread live through the loop, and only 32 registers are
// allowed, so that most of them go to local memory and back at every step.
#include <cuda_runtime.h>

constexpr int SUMS = 96;
constexpr int STEPS = 32;

__global__ void __launch_bounds__(1024, 2) spill(const float *x, float *y, int N) {
    int i = blockIdx.x * 1024 + threadIdx.x;
    float sum[SUMS];
#pragma unroll
    for (int k = 0; k < SUMS; k++) {
        sum[k] = x[(i + k) % N];
    }
    for (int step = 0; step < STEPS; step++) {
        float factor = 1.0f / (step + 2);
#pragma unroll
        for (int k = 0; k < SUMS; k++) {
            sum[k] = fmaf(sum[k], factor, sum[(k + 7) % SUMS]);
        }
    }
    float total = 0;
#pragma unroll
    for (int k = 0; k < SUMS; k++) {
        total += sum[k];
    }
    if (i < N) {
        y[i] = total;
    }
}

extern "C" void solve(const float *x, float *y, int N) {
    spill<<<(N + 1023) / 1024, 1024>>>(x, y, N);
}
