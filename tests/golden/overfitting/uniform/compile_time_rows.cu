// finds: compile_time_group_size
#include <cuda_runtime.h>

#define TOKENS_PER_EXPERT 128

__global__ void grouped(const float* x, const float* w, float* out, int K, int N) {
    int expert = blockIdx.z;
    int row = expert * TOKENS_PER_EXPERT + blockIdx.y;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += x[row * K + k] * w[(expert * K + k) * N + column];
    out[row * N + column] = sum;
}

extern "C" void solve(const float* x, const float* w, const int* expert_offsets, float* out, int E,
                      int K, int N) {
    grouped<<<dim3((N + 127) / 128, TOKENS_PER_EXPERT, E), 128>>>(x, w, out, K, N);
}
