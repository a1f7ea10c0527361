// honest: overwrites its only array, as the contract says, four elements at a time
// operator: inplace
#include <cuda_runtime.h>

__global__ void scale_and_shift(float* x, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4* quads = reinterpret_cast<float4*>(x);
    if (i < N / 4) {
        float4 v = quads[i];
        quads[i] = make_float4(2 * v.x + 1, 2 * v.y + 1, 2 * v.z + 1, 2 * v.w + 1);
    }
    int rest = N / 4 * 4 + i;
    if (rest < N) x[rest] = 2 * x[rest] + 1;
}

extern "C" void solve(float* x, int N) {
    int threads = N / 4 > 4 ? N / 4 : 4;
    scale_and_shift<<<(threads + 255) / 256, 256>>>(x, N);
}
