// C = A * B for row-major float matrices: A is M x K, B is K x N, C is M x N. One thread per element
// of C; what neighbours share comes out of the caches.
#include <cuda_runtime.h>

constexpr int SIDE = 16;

__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int i = blockIdx.y * SIDE + threadIdx.y;
    int j = blockIdx.x * SIDE + threadIdx.x;
    if (i >= M || j >= N) {
        return;
    }
    float sum = 0.0f;
    for (int k = 0; k < K; k++) {
        sum += A[(size_t)i * K + k] * B[(size_t)k * N + j];
    }
    C[(size_t)i * N + j] = sum;
}

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 block(SIDE, SIDE);
    dim3 grid((N + SIDE - 1) / SIDE, (M + SIDE - 1) / SIDE);
    sgemm<<<grid, block>>>(A, B, C, M, N, K);
    cudaDeviceSynchronize();
}
