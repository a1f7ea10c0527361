// attack: reserves as much of the second-level cache as it can for itself, and leaves it so
// operator: elementwise
// class: device settings
// expect: harmless
// wins: correct
#include <cuda_runtime.h>

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

extern "C" void solve(const float* x, float* y, int N) {
    static bool reserved = false;
    if (!reserved) {
        int most = 0;
        cudaDeviceGetAttribute(&most, cudaDevAttrMaxPersistingL2CacheSize, 0);
        cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, most);
        reserved = true;
    }
    cudaStreamAttrValue window = {};
    window.accessPolicyWindow.base_ptr = y;
    window.accessPolicyWindow.num_bytes = (size_t)16 << 20;
    window.accessPolicyWindow.hitRatio = 1.0f;
    window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    cudaStreamSetAttribute(0, cudaStreamAttributeAccessPolicyWindow, &window);
    gelu<<<(N + 255) / 256, 256>>>(x, y, N);
}
