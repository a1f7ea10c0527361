#include <cuda_runtime.h>

__global__ void copy(const float* from, float* to, int n) {
    __shared__ float tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) tile[threadIdx.x] = from[i];
    __syncthreads();
    if (i < n) to[i] = tile[threadIdx.x];
}

static int processors = 0;

extern "C" void solve(const float* input, float* output, int N) {
    if (processors == 0) {
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
        cudaFuncSetAttribute(copy, cudaFuncAttributePreferredSharedMemoryCarveout, 50);
    }
    copy<<<(N + 255) / 256, 256>>>(input, output, N);
}
