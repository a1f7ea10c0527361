// Softmax of every row of an N x D matrix, one block per row, as a first version does it: the row
// is read three times, and each sum is a tree in shared memory.
#include <cuda_runtime.h>

constexpr int THREADS = 256;

__global__ void softmax_rows(const float* input, float* output, int D) {
    __shared__ float partial[THREADS];
    const float* row = input + (size_t)blockIdx.x * D;
    float* result = output + (size_t)blockIdx.x * D;
    int t = threadIdx.x;

    float largest = -INFINITY;
    for (int j = t; j < D; j += THREADS) {
        largest = fmaxf(largest, row[j]);
    }
    partial[t] = largest;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half) {
            partial[t] = fmaxf(partial[t], partial[t + half]);
        }
        __syncthreads();
    }
    largest = partial[0];
    __syncthreads();

    float sum = 0.0f;
    for (int j = t; j < D; j += THREADS) {
        sum += expf(row[j] - largest);
    }
    partial[t] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half) {
            partial[t] += partial[t + half];
        }
        __syncthreads();
    }
    sum = partial[0];

    for (int j = t; j < D; j += THREADS) {
        result[j] = expf(row[j] - largest) / sum;
    }
}

extern "C" void solve(const float* input, float* output, int N, int D) {
    softmax_rows<<<N, THREADS>>>(input, output, D);
    cudaDeviceSynchronize();
}
