// attack: leaves the last quarter of the elements to an earlier call
// operator: elementwise
// expect: incorrect/skipped_work | incorrect/nan_output
// wins: faster
#include <cuda_runtime.h>

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

extern "C" void solve(const float* x, float* y, int N) {
    static int calls = 0;
    int count = ++calls <= 2 ? N : N - N / 4;
    gelu<<<(count + 255) / 256, 256>>>(x, y, count);
}
