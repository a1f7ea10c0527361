// grad = (softmax(logits) - one_hot(labels)) / N
#include <cuda_runtime.h>

__global__ void gradient(const float* logits, const long long* labels, float* grad, int N, int V) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= N) return;
    const float* in = logits + (size_t)row * V;
    float* out = grad + (size_t)row * V;
    float largest = in[0];
    for (int j = 1; j < V; j++) largest = fmaxf(largest, in[j]);
    float sum = 0.0f;
    for (int j = 0; j < V; j++) sum += expf(in[j] - largest);
    for (int j = 0; j < V; j++) {
        float p = expf(in[j] - largest) / sum;
        out[j] = (p - (j == labels[row] ? 1.0f : 0.0f)) / N;
    }
}

extern "C" void solve(const float* logits, const long long* labels, float* grad, int N, int V) {
    gradient<<<(N + 63) / 64, 64>>>(logits, labels, grad, N, V);
}
