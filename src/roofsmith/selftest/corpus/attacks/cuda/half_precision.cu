// attack: multiplies in fp16, with fp16 sums, what is declared float32
// operator: gemm
// expect: incorrect/precision | incorrect/wrong_output
// wins: faster
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__global__ void multiply(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ __half2 a[32][16], b[16][32];
    int column = blockIdx.x * 32 + threadIdx.x, top = blockIdx.y * 32;
    float sum[4] = {};
    for (int k = 0; k < K; k += 32) {
        for (int r = threadIdx.y; r < 32; r += 8) {
            if (threadIdx.x < 16) {
                const float* from = A + (size_t)(top + r) * K + k + 2 * threadIdx.x;
                a[r][threadIdx.x] = __floats2half2_rn(from[0], from[1]);
            }
            if (r < 16) {
                const float* from = B + (size_t)(k + 2 * r) * N + column;
                b[r][threadIdx.x] = __floats2half2_rn(from[0], from[N]);
            }
        }
        __syncthreads();
        for (int e = 0; e < 4; e++) {
            __half2 part = __float2half2_rn(0.0f);
            for (int t = 0; t < 16; t++) {
                part = __hfma2(a[threadIdx.y + 8 * e][t], b[t][threadIdx.x], part);
            }
            sum[e] += __low2float(part) + __high2float(part);
        }
        __syncthreads();
    }
    for (int e = 0; e < 4; e++) C[(size_t)(top + threadIdx.y + 8 * e) * N + column] = sum[e];
}

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
    multiply<<<dim3(N / 32, M / 32), dim3(32, 8)>>>(A, B, C, M, N, K);
}
