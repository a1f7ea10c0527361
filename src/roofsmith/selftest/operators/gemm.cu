// C = A B in float32: 32 x 32 tiles in shared memory, four elements of C per thread.
#include <cuda_runtime.h>

constexpr int TILE = 32, EACH = 4;

__global__ void multiply(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[TILE][TILE + 1], b[TILE][TILE + 1];
    int column = blockIdx.x * TILE + threadIdx.x, top = blockIdx.y * TILE;
    float sum[EACH] = {};
    for (int k = 0; k < K; k += TILE) {
        for (int r = threadIdx.y; r < TILE; r += TILE / EACH) {
            int at = k + threadIdx.x;
            a[r][threadIdx.x] = top + r < M && at < K ? A[(size_t)(top + r) * K + at] : 0.0f;
            b[r][threadIdx.x] = k + r < K && column < N ? B[(size_t)(k + r) * N + column] : 0.0f;
        }
        __syncthreads();
        for (int t = 0; t < TILE; t++) {
            for (int e = 0; e < EACH; e++) {
                sum[e] += a[threadIdx.y + e * (TILE / EACH)][t] * b[t][threadIdx.x];
            }
        }
        __syncthreads();
    }
    for (int e = 0; e < EACH; e++) {
        int row = top + threadIdx.y + e * (TILE / EACH);
        if (row < M && column < N) C[(size_t)row * N + column] = sum[e];
    }
}

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
    multiply<<<grid, dim3(TILE, TILE / EACH)>>>(A, B, C, M, N, K);
    cudaDeviceSynchronize();
}
