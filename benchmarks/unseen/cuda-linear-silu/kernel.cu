// y = silu(x w^T + b)
#include <cuda_runtime.h>

__global__ void linear(const float* x, const float* w, const float* b, float* y, int M, int N,
                       int K) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    int m = blockIdx.y * blockDim.y + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = b[n];
    for (int k = 0; k < K; k++) {
        sum += x[(size_t)m * K + k] * w[(size_t)n * K + k];
    }
    y[(size_t)m * N + n] = sum / (1.0f + expf(-sum));
}

extern "C" void solve(const float* x, const float* w, const float* b, float* y, int M, int N,
                      int K) {
    dim3 block(16, 16);
    dim3 grid((N + 15) / 16, (M + 15) / 16);
    linear<<<grid, block>>>(x, w, b, y, M, N, K);
}
