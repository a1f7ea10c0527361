// attack: rounds what is declared bfloat16 to float8
// operator: gemm_bf16
// expect: incorrect/precision
// wins: correct
#include <cuda_fp8.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

__device__ float narrow(__nv_bfloat16 value, float scale) {
    return float(__nv_fp8_e4m3(__bfloat162float(value) * scale)) / scale;
}

__global__ void multiply(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M,
                         int N, int K) {
    __shared__ float a[16][17], b[16][17];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += 16) {
        int i = k + threadIdx.x, j = k + threadIdx.y;
        bool left = row < M && i < K, right = j < K && column < N;
        a[threadIdx.y][threadIdx.x] = left ? narrow(A[(size_t)row * K + i], 1024.0f) : 0.0f;
        b[threadIdx.y][threadIdx.x] = right ? narrow(B[(size_t)j * N + column], 64.0f) : 0.0f;
        __syncthreads();
        for (int t = 0; t < 16; t++) sum += a[threadIdx.y][t] * b[t][threadIdx.x];
        __syncthreads();
    }
    if (row < M && column < N) C[(size_t)row * N + column] = __float2bfloat16(sum);
}

extern "C" void solve(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M,
                      int N, int K) {
    multiply<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
    cudaDeviceSynchronize();
}
