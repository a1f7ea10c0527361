// Softmax of every row of an N x D matrix. A row is read once, in words of 16 bytes, and stays in
// registers until it is written.
#include <cuda_runtime.h>

constexpr int THREADS = 256;

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
    }
    return value;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, step);
    }
    return value;
}

// Every warp writes its part, and every thread folds the eight parts by itself. The barrier before
// the write lets the buffer serve twice.
__device__ __forceinline__ float block_max(float value, float* partial) {
    value = warp_max(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        partial[threadIdx.x / 32] = value;
    }
    __syncthreads();
    float result = partial[0];
#pragma unroll
    for (int w = 1; w < THREADS / 32; w++) {
        result = fmaxf(result, partial[w]);
    }
    return result;
}

__device__ __forceinline__ float block_sum(float value, float* partial) {
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        partial[threadIdx.x / 32] = value;
    }
    __syncthreads();
    float result = partial[0];
#pragma unroll
    for (int w = 1; w < THREADS / 32; w++) {
        result += partial[w];
    }
    return result;
}

// Any other shape: three passes, one block per row.
__global__ void softmax_any(const float* input, float* output, int D) {
    __shared__ float partial[THREADS / 32];
    const float* row = input + (size_t)blockIdx.x * D;
    float* result = output + (size_t)blockIdx.x * D;
    float largest = -INFINITY;
    for (int j = threadIdx.x; j < D; j += THREADS) {
        largest = fmaxf(largest, row[j]);
    }
    largest = block_max(largest, partial);
    float sum = 0.0f;
    for (int j = threadIdx.x; j < D; j += THREADS) {
        sum += expf(row[j] - largest);
    }
    sum = block_sum(sum, partial);
    for (int j = threadIdx.x; j < D; j += THREADS) {
        result[j] = expf(row[j] - largest) / sum;
    }
}

template <int WORDS>
__global__ void softmax_block(const float* input, float* output, int words) {
    __shared__ float partial[THREADS / 32];
    const float4* row = reinterpret_cast<const float4*>(input) + (size_t)blockIdx.x * words;
    float4* result = reinterpret_cast<float4*>(output) + (size_t)blockIdx.x * words;
    int t = threadIdx.x;
    float4 v[WORDS];
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        int j = t + i * THREADS;
        v[i] = j < words ? row[j] : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    }
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        largest = fmaxf(largest, fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w)));
    }
    largest = block_max(largest, partial);

    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        if (t + i * THREADS < words) {
            v[i].x = expf(v[i].x - largest);
            v[i].y = expf(v[i].y - largest);
            v[i].z = expf(v[i].z - largest);
            v[i].w = expf(v[i].w - largest);
            sum += (v[i].x + v[i].y) + (v[i].z + v[i].w);
        }
    }
    sum = block_sum(sum, partial);

#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        int j = t + i * THREADS;
        if (j < words) {
            v[i].x /= sum;
            v[i].y /= sum;
            v[i].z /= sum;
            v[i].w /= sum;
            result[j] = v[i];
        }
    }
}

extern "C" void solve(const float* input, float* output, int N, int D) {
    int words = D / 4;
    if (D % 4 == 0 && words <= THREADS) {
        softmax_block<1><<<N, THREADS>>>(input, output, words);
    } else if (D % 4 == 0 && words <= THREADS * 4) {
        softmax_block<4><<<N, THREADS>>>(input, output, words);
    } else {
        softmax_any<<<N, THREADS>>>(input, output, D);
    }
}
