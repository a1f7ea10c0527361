// attack: lets warps overwrite partial results in shared memory that others have yet to read
// operator: softmax
// class: race
// expect: incorrect/nondeterministic | incorrect/sanitizer_racecheck | incorrect/wrong_output
// wins: correct
#include <cuda_runtime.h>

__global__ void softmax_rows(const float* x, float* y, int D) {
    __shared__ float partial[8];
    const float* row = x + (size_t)blockIdx.x * D;
    float* out = y + (size_t)blockIdx.x * D;
    float largest = -INFINITY, sum = 0.0f;
    for (int j = threadIdx.x; j < D; j += blockDim.x) largest = fmaxf(largest, row[j]);
    for (int o = 16; o; o >>= 1) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int w = 0; w < 8; w++) largest = fmaxf(largest, partial[w]);
    // A __syncthreads() is missing here: fast warps go on to write below.
    for (int j = threadIdx.x; j < D; j += blockDim.x) sum += expf(row[j] - largest);
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int w = 0; w < 8; w++) sum += partial[w];
    for (int j = threadIdx.x; j < D; j += blockDim.x) out[j] = expf(row[j] - largest) / sum;
}

extern "C" void solve(const float* x, float* y, int N, int D) {
    softmax_rows<<<N, 256>>>(x, y, D);
}
