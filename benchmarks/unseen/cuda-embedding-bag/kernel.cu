// Embedding bag: each bag is the weighted sum of the rows of the table that it names.
// Bag b has the indices from offsets[b] up to offsets[b + 1]; it may be empty.
#include <cuda_runtime.h>

__global__ void embedding_bag_kernel(const float* table, const int* indices, const int* offsets,
                                     const float* weights, float* out, int B, int D) {
    int bag = blockIdx.x * blockDim.x + threadIdx.x;
    if (bag < B) {
        int start = offsets[bag];
        int end = offsets[bag + 1];
        for (int d = 0; d < D; d++) {
            float acc = 0.0f;
            for (int i = start; i < end; i++) {
                acc += weights[i] * table[(long long)indices[i] * D + d];
            }
            out[(long long)bag * D + d] = acc;
        }
    }
}

extern "C" void solve(const float* table, const int* indices, const int* offsets,
                      const float* weights, float* out, int V, int B, int L, int D) {
    int threads = 128;
    int blocks = (B + threads - 1) / threads;
    embedding_bag_kernel<<<blocks, threads>>>(table, indices, offsets, weights, out, B, D);
}
