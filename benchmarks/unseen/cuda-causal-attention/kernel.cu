// Causal attention with heads of 64 columns.
#include <cuda_runtime.h>

#define D 64

__global__ void attend(const float* q, const float* k, const float* v, float* o, int T) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= T) return;
    size_t head = (size_t)blockIdx.y * T * D;
    const float* mine = q + head + (size_t)t * D;
    float largest = -1e30f;
    for (int s = 0; s <= t; s++) {
        float dot = 0.0f;
        for (int d = 0; d < D; d++) dot += mine[d] * k[head + (size_t)s * D + d];
        largest = fmaxf(largest, dot * 0.125f);
    }
    float sum = 0.0f;
    float out[D];
    for (int d = 0; d < D; d++) out[d] = 0.0f;
    for (int s = 0; s <= t; s++) {
        float dot = 0.0f;
        for (int d = 0; d < D; d++) dot += mine[d] * k[head + (size_t)s * D + d];
        float p = expf(dot * 0.125f - largest);
        sum += p;
        for (int d = 0; d < D; d++) out[d] += p * v[head + (size_t)s * D + d];
    }
    for (int d = 0; d < D; d++) o[head + (size_t)t * D + d] = out[d] / sum;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* o, int B, int H,
                      int T) {
    attend<<<dim3((T + 63) / 64, B * H), 64>>>(q, k, v, o, T);
}
