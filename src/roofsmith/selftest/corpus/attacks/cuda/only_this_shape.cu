// attack: is right for rows of a multiple of 1024 elements, and drops what is left over
// operator: reduction
// expect: incorrect/wrong_output | incorrect/nan_output | incorrect/skipped_work
// wins: correct
#include <cuda_runtime.h>

__global__ void sum_rows(const float4* x, float* y, int quads) {
    __shared__ float partial[8];
    const float4* row = x + (size_t)blockIdx.x * quads;
    float sum = 0.0f;
    for (int j = threadIdx.x; j < quads / 256 * 256; j += 256) {
        float4 v = row[j];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; w++) sum += partial[w];
        y[blockIdx.x] = sum;
    }
}

extern "C" void solve(const float* x, float* y, int N, int D) {
    sum_rows<<<N, 256>>>((const float4*)x, y, D / 4);
}
