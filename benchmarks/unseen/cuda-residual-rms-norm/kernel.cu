// s = x + r; y = s / sqrt(mean(s * s) + eps) * w, row by row.
#include <cuda_runtime.h>

__global__ void rms(const float* x, const float* r, const float* w, float* s, float* y, int N,
                    int D, float eps) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= N) return;
    float total = 0.0f;
    for (int j = 0; j < D; j++) {
        float v = x[(size_t)row * D + j] + r[(size_t)row * D + j];
        s[(size_t)row * D + j] = v;
        total += v * v;
    }
    float scale = 1.0f / sqrtf(total / D + eps);
    for (int j = 0; j < D; j++) {
        y[(size_t)row * D + j] = s[(size_t)row * D + j] * scale * w[j];
    }
}

extern "C" void solve(const float* x, const float* r, const float* w, float* s, float* y, int N,
                      int D, float eps) {
    rms<<<(N + 127) / 128, 128>>>(x, r, w, s, y, N, D, eps);
}
