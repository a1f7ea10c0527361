// Compute, divergence: every lane of a warp takes a way of its own, so that the warp walks them all,
// one lane at a time.
#include <cuda_runtime.h>

constexpr int STEPS = 64;

template <int WAY> __device__ __noinline__ float way(float value) {
#pragma unroll 1
    for (int step = 0; step < STEPS; step++) {
#pragma unroll
        for (int k = 0; k < 8; k++) {
            value = fmaf(value, 0.5f + 0.001f * WAY, 0.25f * WAY);
        }
    }
    return value;
}

template <int WAY> __device__ float choose(int lane, float value) {
    if constexpr (WAY == 32) {
        return value;
    } else {
        return lane == WAY ? way<WAY>(value) : choose<WAY + 1>(lane, value);
    }
}

__global__ void __launch_bounds__(256) lanes(const float *x, float *y, int N) {
    int i = blockIdx.x * 256 + threadIdx.x;
    float value = i < N ? x[i] : 0.0f;
    value = choose<0>(threadIdx.x % 32, value);
    if (i < N) {
        y[i] = value;
    }
}

extern "C" void solve(const float *x, float *y, int N) {
    lanes<<<(N + 255) / 256, 256>>>(x, y, N);
}
