// honest: takes its workspace from the stream-ordered allocator in every call
// operator: histogram
#include <cuda_runtime.h>

constexpr int COPIES = 8;

__global__ void count(const int* x, int* copies, int N, int B) {
    int* mine = copies + blockIdx.x % COPIES * B;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x) {
        atomicAdd(&mine[x[i]], 1);
    }
}

__global__ void add_up(const int* copies, int* counts, int B) {
    int bin = blockIdx.x * blockDim.x + threadIdx.x;
    if (bin >= B) return;
    int sum = 0;
    for (int c = 0; c < COPIES; c++) sum += copies[c * B + bin];
    counts[bin] = sum;
}

extern "C" void solve(const int* x, int* counts, int N, int B) {
    int* copies;
    size_t bytes = sizeof(int) * COPIES * B;
    cudaMallocAsync(&copies, bytes, 0);
    cudaMemsetAsync(copies, 0, bytes, 0);
    count<<<1056, 256>>>(x, copies, N, B);
    add_up<<<(B + 255) / 256, 256>>>(copies, counts, B);
    cudaFreeAsync(copies, 0);
}
