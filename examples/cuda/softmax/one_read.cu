// Softmax of every row, read once: a block keeps its row in registers, four floats a load, and
// reduces by warp shuffles. Rows that don't fit, or aren't a multiple of 4, are read three times.
#include <cuda_runtime.h>

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;
constexpr int VECTORS = 4;  // float4 per thread: rows of up to 4096

template <bool MAX>
__device__ float reduce(float value, float* partial) {
    for (int step = 16; step > 0; step /= 2) {
        float other = __shfl_xor_sync(0xffffffff, value, step);
        value = MAX ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0) {
        partial[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = partial[threadIdx.x % WARPS];
    for (int step = WARPS / 2; step > 0; step /= 2) {
        float other = __shfl_xor_sync(0xffffffff, value, step);
        value = MAX ? fmaxf(value, other) : value + other;
    }
    return value;
}

__global__ void softmax_in_registers(const float4* input, float4* output, int vectors) {
    __shared__ float largest_of[WARPS], sum_of[WARPS];
    const float4* row = input + (size_t)blockIdx.x * vectors;
    float4* result = output + (size_t)blockIdx.x * vectors;
    float4 held[VECTORS];

    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        int j = threadIdx.x + i * THREADS;
        if (j < vectors) {
            held[i] = row[j];
            largest = fmaxf(largest, fmaxf(fmaxf(held[i].x, held[i].y), fmaxf(held[i].z, held[i].w)));
        }
    }
    largest = reduce<true>(largest, largest_of);

    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        if (threadIdx.x + i * THREADS < vectors) {
            held[i].x = expf(held[i].x - largest);
            held[i].y = expf(held[i].y - largest);
            held[i].z = expf(held[i].z - largest);
            held[i].w = expf(held[i].w - largest);
            sum += held[i].x + held[i].y + held[i].z + held[i].w;
        }
    }
    float scale = 1.0f / reduce<false>(sum, sum_of);

#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        int j = threadIdx.x + i * THREADS;
        if (j < vectors) {
            float4 v = held[i];
            result[j] = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
        }
    }
}

__global__ void softmax_rows(const float* input, float* output, int D) {
    __shared__ float largest_of[WARPS], sum_of[WARPS];
    const float* row = input + (size_t)blockIdx.x * D;
    float* result = output + (size_t)blockIdx.x * D;
    float largest = -INFINITY, sum = 0.0f;
    for (int j = threadIdx.x; j < D; j += THREADS) {
        largest = fmaxf(largest, row[j]);
    }
    largest = reduce<true>(largest, largest_of);
    for (int j = threadIdx.x; j < D; j += THREADS) {
        sum += expf(row[j] - largest);
    }
    float scale = 1.0f / reduce<false>(sum, sum_of);
    for (int j = threadIdx.x; j < D; j += THREADS) {
        result[j] = expf(row[j] - largest) * scale;
    }
}

extern "C" void solve(const float* input, float* output, int N, int D) {
    if (D % 4 == 0 && D <= 4 * VECTORS * THREADS) {
        softmax_in_registers<<<N, THREADS>>>((const float4*)input, (float4*)output, D / 4);
    } else {
        softmax_rows<<<N, THREADS>>>(input, output, D);
    }
    cudaDeviceSynchronize();
}
