// honest: synchronises the whole grid between two phases of one cooperative launch
// operator: reduction
#include <cooperative_groups.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

constexpr int PARTS = 2;

__global__ void sum_rows(const float* x, float* y, float* parts, int N, int D) {
    __shared__ float partial[8];
    for (int task = blockIdx.x; task < N * PARTS; task += gridDim.x) {
        const float* row = x + (size_t)(task / PARTS) * D;
        float sum = 0.0f;
        for (int j = task % PARTS * 256 + threadIdx.x; j < D; j += 256 * PARTS) sum += row[j];
        for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 1; w < 8; w++) sum += partial[w];
            parts[task] = sum;
        }
        __syncthreads();
    }
    cg::this_grid().sync();
    for (int row = blockIdx.x * 256 + threadIdx.x; row < N; row += gridDim.x * 256) {
        y[row] = parts[row * PARTS] + parts[row * PARTS + 1];
    }
}

extern "C" void solve(const float* x, float* y, int N, int D) {
    static float* parts = nullptr;
    static int rows = 0, blocks = 0;
    if (rows < N) {
        cudaFree(parts);
        cudaMalloc(&parts, sizeof(float) * N * PARTS);
        rows = N;
    }
    if (!blocks) {
        int per_multiprocessor = 0, multiprocessors = 0;
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, sum_rows, 256, 0);
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
        blocks = per_multiprocessor * multiprocessors;
    }
    void* arguments[] = {&x, &y, &parts, &N, &D};
    cudaLaunchCooperativeKernel((const void*)sum_rows, dim3(blocks), dim3(256), arguments, 0, 0);
}
