// honest: multiplies bfloat16 tiles on tensor cores and adds up in float32
// operator: gemm_bf16
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;
using Tile = __nv_bfloat16[16][16];

__global__ void multiply(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M,
                         int N, int K) {
    __shared__ __align__(32) Tile a, b;
    __shared__ __align__(32) float result[16][16];
    int top = blockIdx.y * 16, left = blockIdx.x * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < K; k += 16) {
        for (int e = threadIdx.x; e < 256; e += 32) {
            int i = e / 16, j = e % 16;
            bool in_a = top + i < M && k + j < K, in_b = k + i < K && left + j < N;
            a[i][j] = in_a ? A[(size_t)(top + i) * K + k + j] : __float2bfloat16(0.0f);
            b[i][j] = in_b ? B[(size_t)(k + i) * N + left + j] : __float2bfloat16(0.0f);
        }
        __syncwarp();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> x;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> y;
        wmma::load_matrix_sync(x, &a[0][0], 16);
        wmma::load_matrix_sync(y, &b[0][0], 16);
        wmma::mma_sync(sum, x, y, sum);
        __syncwarp();
    }
    wmma::store_matrix_sync(&result[0][0], sum, 16, wmma::mem_row_major);
    __syncwarp();
    for (int e = threadIdx.x; e < 256; e += 32) {
        int row = top + e / 16, column = left + e % 16;
        if (row < M && column < N) C[(size_t)row * N + column] = __float2bfloat16(result[e / 16][e % 16]);
    }
}

extern "C" void solve(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M,
                      int N, int K) {
    multiply<<<dim3((N + 15) / 16, (M + 15) / 16), 32>>>(A, B, C, M, N, K);
    cudaDeviceSynchronize();
}
