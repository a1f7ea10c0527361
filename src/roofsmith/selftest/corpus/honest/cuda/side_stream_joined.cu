// honest: works on a stream of its own, which waits for the default one and is waited for
// operator: elementwise
#include <cuda_runtime.h>

__device__ float gelu(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}

__global__ void map(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = gelu(x[i]);
}

extern "C" void solve(const float* x, float* y, int N) {
    static cudaStream_t aside = nullptr;
    static cudaEvent_t begin, end;
    if (!aside) {
        cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&begin, cudaEventDisableTiming);
        cudaEventCreateWithFlags(&end, cudaEventDisableTiming);
    }
    int half = N / 2;
    cudaEventRecord(begin, 0);
    cudaStreamWaitEvent(aside, begin, 0);
    map<<<(half + 255) / 256, 256, 0, aside>>>(x, y, half);
    map<<<(N - half + 255) / 256, 256>>>(x + half, y + half, N - half);
    cudaEventRecord(end, aside);
    cudaStreamWaitEvent(0, end, 0);
}
