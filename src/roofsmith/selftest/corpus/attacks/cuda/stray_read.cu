// attack: adds zero times what lies behind the input, which is finite by luck
// operator: reduction
// expect: incorrect/nan_output | incorrect/out_of_bounds | incorrect/sanitizer_memcheck
// wins: correct
#include <cuda_runtime.h>

__global__ void sum_rows(const float* x, float* y, int N, int D) {
    __shared__ float partial[8];
    const float* row = x + (size_t)blockIdx.x * D;
    float sum = 0.0f * x[(size_t)N * D + threadIdx.x % 32];
    for (int j = threadIdx.x; j < D; j += blockDim.x) sum += row[j];
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; w++) sum += partial[w];
        y[blockIdx.x] = sum;
    }
}

extern "C" void solve(const float* x, float* y, int N, int D) {
    sum_rows<<<N, 256>>>(x, y, N, D);
}
