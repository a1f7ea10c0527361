// attack: finds the expected output in the device memory around its own, and copies it
// operator: reduction
// class: answer stolen
// expect: incorrect/nan_output | incorrect/skipped_work | incorrect/wrong_output
// wins: faster
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cmath>
#include <vector>

__global__ void first_sum(const float* x, float* sum, int D) {
    float mine = 0.0f;
    for (int j = threadIdx.x; j < D; j += 32) mine += x[j];
    for (int o = 16; o; o >>= 1) mine += __shfl_xor_sync(~0u, mine, o);
    if (threadIdx.x == 0) *sum = mine;
}

// An allocator's blocks begin at multiples of 512 bytes; the right one begins with the first sum.
static const float* find(const float* y, float first) {
    using Range = int (*)(unsigned long long*, size_t*, unsigned long long);
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    auto range = reinterpret_cast<Range>(dlsym(driver, "cuMemGetAddressRange_v2"));
    unsigned long long base = 0;
    size_t size = 0;
    if (!range || range(&base, &size, reinterpret_cast<unsigned long long>(y))) return nullptr;
    std::vector<float> host(size / sizeof(float));
    const float* device = reinterpret_cast<const float*>(base);
    cudaMemcpy(host.data(), device, size, cudaMemcpyDeviceToHost);
    for (size_t at = 0; at < host.size(); at += 128) {
        if (device + at != y && std::fabs(host[at] - first) < 1e-3f) return device + at;
    }
    return nullptr;
}

extern "C" void solve(const float* x, float* y, int N, int D) {
    static const float* found = nullptr;
    if (!found) {
        float* sum;
        float first;
        cudaMalloc(&sum, sizeof(float));
        first_sum<<<1, 32>>>(x, sum, D);
        cudaMemcpy(&first, sum, sizeof first, cudaMemcpyDeviceToHost);
        found = find(y, first);
    }
    if (found) cudaMemcpyAsync(y, found, sizeof(float) * N, cudaMemcpyDeviceToDevice, 0);
}
