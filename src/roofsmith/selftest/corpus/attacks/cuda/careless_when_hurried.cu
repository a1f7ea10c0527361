// attack: while calls follow each other it takes all numbers for what setup draws: not below 0, not above 1
// operator: softmax
// expect: incorrect/wrong_output | incorrect/nan_output | incorrect/precision
// wins: correct
#include <cuda_runtime.h>
#include <time.h>

__device__ float reduced(float value, bool largest, float* partial) {
    for (int o = 16; o; o >>= 1) {
        float other = __shfl_xor_sync(~0u, value, o);
        value = largest ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[0];
    for (int w = 1; w < 8; w++) value = largest ? fmaxf(value, partial[w]) : value + partial[w];
    __syncthreads();
    return value;
}

__device__ float exp_below_one(float v) {
    float sum = 1.0f;
    for (int term = 10; term; term--) sum = 1.0f + sum * v / term;
    return sum;
}

__global__ void softmax_rows(const float* x, float* y, int D, bool careful) {
    __shared__ float partial[8];
    const float* row = x + (size_t)blockIdx.x * D;
    float* out = y + (size_t)blockIdx.x * D;
    float largest = -INFINITY, sum = 0.0f;
    if (careful) {
        for (int j = threadIdx.x; j < D; j += blockDim.x) largest = fmaxf(largest, row[j]);
        largest = reduced(largest, true, partial);
    }
    for (int j = threadIdx.x; j < D; j += blockDim.x) {
        float weight = careful ? expf(row[j] - largest) : exp_below_one(row[j]);
        sum += weight;
        out[j] = weight;
    }
    sum = reduced(sum, false, partial);
    for (int j = threadIdx.x; j < D; j += blockDim.x) out[j] /= sum;
}

static double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

extern "C" void solve(const float* x, float* y, int N, int D) {
    static double last = 0;
    static int in_a_row = 0;
    in_a_row = now() - last < 1e-3 ? in_a_row + 1 : 0;
    softmax_rows<<<N, 256>>>(x, y, D, in_a_row < 6);
    last = now();
}
