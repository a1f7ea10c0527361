// honest: builds a table in constant memory in its first call and uses it ever after
// operator: elementwise
#include <cuda_runtime.h>

__constant__ float coefficients[4];

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i], cubed = v * v * v;
        float inner = coefficients[0] * (v + coefficients[1] * cubed);
        y[i] = coefficients[2] * v * (coefficients[3] + tanhf(inner));
    }
}

extern "C" void solve(const float* x, float* y, int N) {
    static bool set_up = false;
    if (!set_up) {
        const float values[4] = {0.7978845608f, 0.044715f, 0.5f, 1.0f};
        cudaMemcpyToSymbol(coefficients, values, sizeof values);
        set_up = true;
    }
    gelu<<<(N + 255) / 256, 256>>>(x, y, N);
}
