// attack: counts on top of what the output holds, which a harness happens to have zeroed
// operator: histogram
// expect: incorrect/wrong_output
// wins: correct
#include <cuda_runtime.h>

__global__ void count(const int* x, int* counts, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) atomicAdd(&counts[x[i]], 1);
}

extern "C" void solve(const int* x, int* counts, int N, int B) {
    count<<<(N + 255) / 256, 256>>>(x, counts, N);
}
