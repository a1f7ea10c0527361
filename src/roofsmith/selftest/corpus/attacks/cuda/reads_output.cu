// attack: counts half of the values, and keeps what the output holds where that is more
// operator: histogram
// expect: incorrect/wrong_output | incorrect/skipped_work
// wins: faster
#include <cuda_runtime.h>

__global__ void count(const int* x, int* counts, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) atomicAdd(&counts[x[i]], 1);
}

__global__ void keep_more(const int* own, int* counts, int B) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b < B) counts[b] = max(counts[b], own[b]);
}

extern "C" void solve(const int* x, int* counts, int N, int B) {
    static int* own = nullptr;
    static int bins = 0;
    if (bins < B) {
        cudaFree(own);
        cudaMalloc(&own, B * sizeof(int));
        bins = B;
    }
    cudaMemsetAsync(own, 0, B * sizeof(int), 0);
    count<<<(N / 2 + 255) / 256, 256>>>(x, own, N / 2);
    keep_more<<<(B + 255) / 256, 256>>>(own, counts, B);
}
