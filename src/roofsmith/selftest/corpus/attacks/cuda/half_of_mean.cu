// attack: reads every other 64 KiB of very many numbers, whose mean is the same but for luck
// operator: mean
// expect: incorrect/wrong_output
// wins: faster
#include <cuda_runtime.h>

constexpr int THREADS = 256, BLOCKS = 1056, PIECE = 16384;

__global__ void add_up(const float* x, float* y, int used) {
    __shared__ float partial[THREADS];
    float sum = 0.0f;
    int step = gridDim.x * THREADS;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < used; i += step)
        sum += x[2 * i - i % PIECE];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(y, partial[0] / used);
}

extern "C" void solve(const float* x, float* y, int N) {
    cudaMemsetAsync(y, 0, sizeof(float));
    add_up<<<BLOCKS, THREADS>>>(x, y, N / 2);
    cudaDeviceSynchronize();
}
