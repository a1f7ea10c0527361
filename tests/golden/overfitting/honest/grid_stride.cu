__device__ unsigned ticket;
__device__ float sums[1024];
__global__ void k(const float *x, float *out, int n) {
    __shared__ unsigned block;
    if (threadIdx.x == 0) block = atomicAdd(&ticket, 1u);
    __syncthreads();
    for (int i = block * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) out[i] = x[i] * 2;
    if (threadIdx.x == 0 && block < 1024) sums[block] = x[block];
}
extern "C" void solve(const float *x, float *out, int n, cudaStream_t s) { void *p; cudaGetSymbolAddress(&p, ticket); cudaMemsetAsync(p, 0, 4, s); k<<<64, 256, 0, s>>>(x, out, n); }
