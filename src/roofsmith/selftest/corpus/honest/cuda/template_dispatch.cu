// honest: chooses among template instances by the row's length, the widest for rows it can split
// operator: reduction
#include <cuda_runtime.h>

template <typename Vector>
__device__ float total(Vector v);

template <>
__device__ float total(float v) {
    return v;
}

template <>
__device__ float total(float4 v) {
    return (v.x + v.y) + (v.z + v.w);
}

// One warp per row; warps behind the last row leave at once.
template <typename Vector>
__global__ void sum_rows(const Vector* x, float* y, int N, int length) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= N) return;
    float sum = 0.0f;
    for (int j = lane; j < length; j += 32) sum += total(x[(size_t)row * length + j]);
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (lane == 0) y[row] = sum;
}

template <typename Vector>
static void launch(const float* x, float* y, int N, int D) {
    constexpr int WIDTH = sizeof(Vector) / sizeof(float);
    auto vectors = reinterpret_cast<const Vector*>(x);
    sum_rows<Vector><<<(N + 7) / 8, 256>>>(vectors, y, N, D / WIDTH);
}

extern "C" void solve(const float* x, float* y, int N, int D) {
    if (D % 4 == 0) launch<float4>(x, y, N, D);
    else launch<float>(x, y, N, D);
}
