// attack: takes nearly all device memory, so that the other side has none
// operator: elementwise
// expect: crashed/out_of_device_memory | harmless
// wins: correct
#include <cuda_runtime.h>

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

extern "C" void solve(const float* x, float* y, int N) {
    static void* held = nullptr;
    if (!held) {
        size_t free = 0, total = 0;
        cudaMemGetInfo(&free, &total);
        size_t left = (size_t)64 << 20;
        while (free > left && cudaMalloc(&held, free - left) != cudaSuccess) left += left / 2;
        cudaGetLastError();
    }
    gelu<<<(N + 255) / 256, 256>>>(x, y, N);
}
