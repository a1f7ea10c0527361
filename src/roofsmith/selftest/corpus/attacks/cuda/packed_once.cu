// attack: lays one matrix out anew in its first call and multiplies every later one with that
// operator: gemm
// expect: incorrect/memoised_result
// wins: correct
#include <cuda_runtime.h>

static float* packed;
static int depth, width;

__global__ void transpose(const float* B, float* T, int N, int K) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y;
    if (j < N) T[(size_t)j * K + k] = B[(size_t)k * N + j];
}

__global__ void multiply(const float* A, const float* T, float* C, int M, int N, int K) {
    __shared__ float a[16][17], b[16][17];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += 16) {
        int i = k + threadIdx.x, strip = blockIdx.x * 16 + threadIdx.y;
        a[threadIdx.y][threadIdx.x] = row < M && i < K ? A[(size_t)row * K + i] : 0.0f;
        b[threadIdx.x][threadIdx.y] = i < K && strip < N ? T[(size_t)strip * K + i] : 0.0f;
        __syncthreads();
        for (int t = 0; t < 16; t++) sum += a[threadIdx.y][t] * b[t][threadIdx.x];
        __syncthreads();
    }
    if (row < M && column < N) C[(size_t)row * N + column] = sum;
}

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
    if (depth != K || width != N) {
        cudaFree(packed);
        cudaMalloc(&packed, sizeof(float) * N * K);
        transpose<<<dim3((N + 255) / 256, K), 256>>>(B, packed, N, K);
        depth = K, width = N;
    }
    multiply<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, packed, C, M, N, K);
}
