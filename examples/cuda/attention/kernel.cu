// Multi-head attention: N tokens of width d, split into h heads of d / h columns each.
//   output = softmax(Q K^T / sqrt(d / h)) V, head by head
// One block per token and head, with that token's N scores in shared memory.
#include <cuda_runtime.h>

constexpr int THREADS = 128;

__device__ float block_max(float value, float* partial) {
    int t = threadIdx.x;
    partial[t] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half) {
            partial[t] = fmaxf(partial[t], partial[t + half]);
        }
        __syncthreads();
    }
    float result = partial[0];
    __syncthreads();
    return result;
}

__device__ float block_sum(float value, float* partial) {
    int t = threadIdx.x;
    partial[t] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half) {
            partial[t] += partial[t + half];
        }
        __syncthreads();
    }
    float result = partial[0];
    __syncthreads();
    return result;
}

__global__ void attention(const float* Q, const float* K, const float* V, float* output, int N,
                          int d, int width) {
    extern __shared__ float score[];
    __shared__ float partial[THREADS];
    int i = blockIdx.x;
    int first = blockIdx.y * width;
    float scale = rsqrtf((float)width);

    float largest = -INFINITY;
    for (int j = threadIdx.x; j < N; j += THREADS) {
        float dot = 0.0f;
        for (int c = 0; c < width; c++) {
            dot += Q[(size_t)i * d + first + c] * K[(size_t)j * d + first + c];
        }
        score[j] = dot * scale;
        largest = fmaxf(largest, score[j]);
    }
    largest = block_max(largest, partial);

    float sum = 0.0f;
    for (int j = threadIdx.x; j < N; j += THREADS) {
        score[j] = expf(score[j] - largest);
        sum += score[j];
    }
    sum = block_sum(sum, partial);

    for (int c = threadIdx.x; c < width; c += THREADS) {
        float value = 0.0f;
        for (int j = 0; j < N; j++) {
            value += score[j] * V[(size_t)j * d + first + c];
        }
        output[(size_t)i * d + first + c] = value / sum;
    }
}

extern "C" void solve(const float* Q, const float* K, const float* V, float* output, int N, int d,
                      int h) {
    dim3 grid(N, h);
    attention<<<grid, THREADS, N * sizeof(float)>>>(Q, K, V, output, N, d, d / h);
    cudaDeviceSynchronize();
}
