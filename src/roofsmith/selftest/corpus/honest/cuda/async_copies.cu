// honest: stages tiles through shared memory with cp.async, two in flight
// operator: gemm
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

constexpr int TILE = 32, ROWS = 8;

__device__ void fetch(float (*tile)[TILE], const float* from, int rows, int columns, int top,
                      int left, int stride) {
    for (int r = threadIdx.y; r < TILE; r += ROWS) {
        int row = top + r, column = left + threadIdx.x;
        if (row < rows && column < columns) {
            const float* source = from + (size_t)row * stride + column;
            __pipeline_memcpy_async(&tile[r][threadIdx.x], source, sizeof(float));
        } else {
            tile[r][threadIdx.x] = 0.0f;
        }
    }
}

__global__ void multiply(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[2][TILE][TILE], b[2][TILE][TILE];
    int top = blockIdx.y * TILE, left = blockIdx.x * TILE, steps = (K + TILE - 1) / TILE;
    float sum[TILE / ROWS] = {};
    fetch(a[0], A, M, K, top, 0, K);
    fetch(b[0], B, K, N, 0, left, N);
    __pipeline_commit();
    for (int s = 0; s < steps; s++) {
        int now = s % 2, next = 1 - now;
        if (s + 1 < steps) {
            fetch(a[next], A, M, K, top, (s + 1) * TILE, K);
            fetch(b[next], B, K, N, (s + 1) * TILE, left, N);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int t = 0; t < TILE; t++) {
            for (int e = 0; e < TILE / ROWS; e++) {
                sum[e] += a[now][threadIdx.y + e * ROWS][t] * b[now][t][threadIdx.x];
            }
        }
        __syncthreads();
    }
    for (int e = 0; e < TILE / ROWS; e++) {
        int row = top + threadIdx.y + e * ROWS, column = left + threadIdx.x;
        if (row < M && column < N) C[(size_t)row * N + column] = sum[e];
    }
}

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
    multiply<<<grid, dim3(TILE, ROWS)>>>(A, B, C, M, N, K);
}
