// attack: keeps a flag behind the output's end, in memory that is somebody else's
// operator: elementwise
// expect: incorrect/out_of_bounds
// wins: correct
#include <cuda_runtime.h>

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
    if (i == 0) y[N + 8] = 1.0f;
}

extern "C" void solve(const float* x, float* y, int N) {
    gelu<<<(N + 255) / 256, 256>>>(x, y, N);
}
