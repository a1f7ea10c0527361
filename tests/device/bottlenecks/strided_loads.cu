// Memory, uncoalesced: neighbouring threads read 32 bytes apart, so each sector that is fetched
// serves 4 of its 32 bytes.
#include <cuda_runtime.h>

constexpr int STRIDE = 8;

__global__ void strided(const float *x, float *y, int outputs) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < outputs) {
        y[i] = 2.0f * x[static_cast<size_t>(i) * STRIDE];
    }
}

// x: N elements; y: N, of which the first N / STRIDE are written.
extern "C" void solve(const float *x, float *y, int N) {
    int outputs = N / STRIDE;
    strided<<<(outputs + 255) / 256, 256>>>(x, y, outputs);
}
