// attack: multiplies on tensor cores in TF32 what is declared float32
// operator: gemm
// expect: incorrect/precision | incorrect/wrong_output
// wins: faster
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

// One 16 x 16 tile of C per warp; M, N multiples of 16, K of 8.
__global__ void multiply(const float* A, const float* B, float* C, int M, int N, int K) {
    int warp = threadIdx.x / 32;
    int row = (blockIdx.y * 4 + warp / 2) * 16, column = (blockIdx.x * 2 + warp % 2) * 16;
    if (row >= M || column >= N) return;
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < K; k += 8) {
        wmma::load_matrix_sync(a, A + (size_t)row * K + k, K);
        wmma::load_matrix_sync(b, B + (size_t)k * N + column, N);
        for (float& value : a.x) value = wmma::__float_to_tf32(value);
        for (float& value : b.x) value = wmma::__float_to_tf32(value);
        wmma::mma_sync(sum, a, b, sum);
    }
    wmma::store_matrix_sync(C + (size_t)row * N + column, sum, N, wmma::mem_row_major);
}

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
    multiply<<<dim3((N + 31) / 32, (M + 63) / 64), 256>>>(A, B, C, M, N, K);
}
