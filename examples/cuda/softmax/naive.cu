// Softmax of every row of an N x D matrix, as a textbook writes it: one thread per row.
#include <cuda_runtime.h>

constexpr int THREADS = 256;

__global__ void softmax_rows(const float* input, float* output, int N, int D) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) {
        return;
    }
    const float* row = input + (size_t)i * D;
    float* result = output + (size_t)i * D;

    float largest = -INFINITY;
    for (int j = 0; j < D; j++) {
        largest = fmaxf(largest, row[j]);
    }
    float sum = 0.0f;
    for (int j = 0; j < D; j++) {
        sum += expf(row[j] - largest);
    }
    for (int j = 0; j < D; j++) {
        result[j] = expf(row[j] - largest) / sum;
    }
}

extern "C" void solve(const float* input, float* output, int N, int D) {
    softmax_rows<<<(N + THREADS - 1) / THREADS, THREADS>>>(input, output, N, D);
    cudaDeviceSynchronize();
}
