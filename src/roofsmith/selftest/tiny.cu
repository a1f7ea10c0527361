/* The kernel that vendors' tools are tried on: wide loads, LDS or shared memory, a loop. */
#include <cstdio>

#if defined(__HIP__)
#include <hip/hip_runtime.h>
#define GPU(name) hip##name
#else
#include <cuda_runtime.h>
#define GPU(name) cuda##name
#endif

constexpr int TILE = 32;

__global__ void scaled(const float4 *from, float4 *to, int count) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) {
        const float4 read = from[at];
        to[at] = make_float4(2 * read.x, 2 * read.y, 2 * read.z, 2 * read.w);
    }
}

__global__ void transposed(const float *from, float *to, int side) {
    __shared__ float tile[TILE][TILE];
    const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = from[y * side + x];
    __syncthreads();
    to[(blockIdx.x * TILE + threadIdx.y) * side + blockIdx.y * TILE + threadIdx.x] =
        tile[threadIdx.x][threadIdx.y]; /* every lane in one bank: a conflict to be counted */
}

__global__ void summed(const float *from, float *to, int side) {
    float sum = 0;
    for (int column = 0; column < side; ++column) sum += from[column * side + threadIdx.x];
    to[threadIdx.x] = sum;
}

int main() {
    constexpr int SIDE = 1024, COUNT = SIDE * SIDE;
    float *from = nullptr, *to = nullptr;
    if (GPU(Malloc)(&from, COUNT * sizeof(float)) || GPU(Malloc)(&to, COUNT * sizeof(float))) return 1;
    if (GPU(Memset)(from, 0, COUNT * sizeof(float))) return 1;
    for (int repeat = 0; repeat < 3; ++repeat) {
        scaled<<<COUNT / 4 / 256, 256>>>((const float4 *)from, (float4 *)to, COUNT / 4);
        transposed<<<dim3(SIDE / TILE, SIDE / TILE), dim3(TILE, TILE)>>>(from, to, SIDE);
        summed<<<1, SIDE>>>(from, to, SIDE);
    }
    const auto failed = GPU(DeviceSynchronize)();
    std::printf("%s\n", GPU(GetErrorString)(failed));
    return failed != GPU(Success);
}
