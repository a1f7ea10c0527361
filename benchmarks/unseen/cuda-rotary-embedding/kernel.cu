// Rotary position embedding (halves rotated against each other), results times `scale`.
// x, y: [B, T, H, 2 * J]; positions: [B, T]; cos, sin: [positions, J]
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__global__ void rope_kernel(const __half* x, const int* positions, const float* cos_table,
                            const float* sin_table, __half* y, int tokens, int H, int J,
                            float scale) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= tokens * H) return;
    int pos = positions[idx / H];
    const __half* in = x + (size_t)idx * 2 * J;
    __half* out = y + (size_t)idx * 2 * J;
    for (int j = 0; j < J; j++) {
        float c = cos_table[pos * J + j];
        float s = sin_table[pos * J + j];
        float a = __half2float(in[j]);
        float b = __half2float(in[j + J]);
        out[j] = __float2half((a * c - b * s) * scale);
        out[j + J] = __float2half((b * c + a * s) * scale);
    }
}

extern "C" void solve(const __half* x, const int* positions, const float* cos_table,
                      const float* sin_table, __half* y, int B, int T, int H, int J,
                      float scale) {
    int n = B * T * H;
    rope_kernel<<<(n + 255) / 256, 256>>>(x, positions, cos_table, sin_table, y, B * T, H, J,
                                          scale);
}
