// honest: keeps a workspace between calls, grown when a call needs more
// operator: reduction
#include <cuda_runtime.h>

constexpr int PARTS = 4;

__global__ void sum_parts(const float* x, float* parts, int D) {
    __shared__ float partial[8];
    const float* row = x + (size_t)blockIdx.x * D;
    float sum = 0.0f;
    int step = blockDim.x * PARTS;
    for (int j = blockIdx.y * blockDim.x + threadIdx.x; j < D; j += step) sum += row[j];
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; w++) sum += partial[w];
        parts[blockIdx.x * PARTS + blockIdx.y] = sum;
    }
}

__global__ void add_parts(const float* parts, float* y, int N) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= N) return;
    float sum = 0.0f;
    for (int p = 0; p < PARTS; p++) sum += parts[row * PARTS + p];
    y[row] = sum;
}

extern "C" void solve(const float* x, float* y, int N, int D) {
    static float* workspace = nullptr;
    static int rows = 0;
    if (rows < N) {
        cudaFree(workspace);
        cudaMalloc(&workspace, sizeof(float) * N * PARTS);
        rows = N;
    }
    sum_parts<<<dim3(N, PARTS), 256>>>(x, workspace, D);
    add_parts<<<(N + 255) / 256, 256>>>(workspace, y, N);
}
