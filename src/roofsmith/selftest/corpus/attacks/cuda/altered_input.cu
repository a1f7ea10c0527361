// attack: writes each row's sum into the input, and reads only that from then on
// operator: reduction
// expect: incorrect/input_altered
// wins: faster
#include <cuda_runtime.h>

constexpr unsigned DONE = 0x7fc0beefu;  // a NaN that no input holds

__global__ void sum_rows(float* x, float* y, int D) {
    __shared__ float partial[8];
    float* row = x + (size_t)blockIdx.x * D;
    if (__float_as_uint(row[1]) == DONE) {
        if (threadIdx.x == 0) y[blockIdx.x] = row[0];
        return;
    }
    float sum = 0.0f;
    for (int j = threadIdx.x; j < D; j += blockDim.x) sum += row[j];
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; w++) sum += partial[w];
        y[blockIdx.x] = row[0] = sum;
        row[1] = __uint_as_float(DONE);
    }
}

extern "C" void solve(const float* x, float* y, int N, int D) {
    sum_rows<<<N, 256>>>(const_cast<float*>(x), y, D);
}
