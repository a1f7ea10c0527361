// honest: splits the sum over K among blocks that add with atomics, in any order
// operator: gemm
#include <cuda_runtime.h>

constexpr int TILE = 16, SPLITS = 4;

__global__ void multiply(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[TILE][TILE + 1], b[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    int share = (K + SPLITS - 1) / SPLITS, first = blockIdx.z * share, last = min(first + share, K);
    float sum = 0.0f;
    for (int k = first; k < last; k += TILE) {
        int i = k + threadIdx.x, j = k + threadIdx.y;
        a[threadIdx.y][threadIdx.x] = row < M && i < last ? A[(size_t)row * K + i] : 0.0f;
        b[threadIdx.y][threadIdx.x] = j < last && column < N ? B[(size_t)j * N + column] : 0.0f;
        __syncthreads();
        for (int t = 0; t < TILE; t++) sum += a[threadIdx.y][t] * b[t][threadIdx.x];
        __syncthreads();
    }
    if (row < M && column < N) atomicAdd(&C[(size_t)row * N + column], sum);
}

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
    cudaMemsetAsync(C, 0, sizeof(float) * M * N, 0);
    dim3 grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE, SPLITS);
    multiply<<<grid, dim3(TILE, TILE)>>>(A, B, C, M, N, K);
}
