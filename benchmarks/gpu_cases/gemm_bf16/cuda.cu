// C = A * B in bfloat16, summed in float: one thread per element of C.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int SIDE = 16;

__global__ void matmul(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K) {
    int i = blockIdx.y * SIDE + threadIdx.y;
    int j = blockIdx.x * SIDE + threadIdx.x;
    if (i >= M || j >= N) {
        return;
    }
    float sum = 0.0f;
    for (int k = 0; k < K; k++) {
        sum += __bfloat162float(A[(size_t)i * K + k]) * __bfloat162float(B[(size_t)k * N + j]);
    }
    C[(size_t)i * N + j] = __float2bfloat16(sum);
}

extern "C" void solve(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K) {
    dim3 block(SIDE, SIDE);
    dim3 grid((N + SIDE - 1) / SIDE, (M + SIDE - 1) / SIDE);
    matmul<<<grid, block>>>(A, B, C, M, N, K);
    cudaDeviceSynchronize();
}
