// How often each of B values occurs among N integers in [0, B): atomics in global memory.
#include <cuda_runtime.h>

__global__ void count(const int* x, int* counts, int N, int B) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) atomicAdd(&counts[x[i]], 1);
}

extern "C" void solve(const int* x, int* counts, int N, int B) {
    cudaMemsetAsync(counts, 0, B * sizeof(int), 0);
    count<<<(N + 255) / 256, 256>>>(x, counts, N, B);
    cudaDeviceSynchronize();
}
