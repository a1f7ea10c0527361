// honest: counts in dynamic shared memory, more than the default limit if need be
// operator: histogram
#include <cuda_runtime.h>

__global__ void count(const int* x, int* counts, int N, int B) {
    extern __shared__ int mine[];
    for (int b = threadIdx.x; b < B; b += blockDim.x) mine[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x) {
        atomicAdd(&mine[x[i]], 1);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < B; b += blockDim.x) {
        if (mine[b]) atomicAdd(&counts[b], mine[b]);
    }
}

extern "C" void solve(const int* x, int* counts, int N, int B) {
    size_t bytes = sizeof(int) * B;
    cudaFuncSetAttribute(count, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    cudaMemsetAsync(counts, 0, bytes, 0);
    count<<<528, 256, bytes>>>(x, counts, N, B);
}
