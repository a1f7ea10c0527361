__device__ unsigned done;
__device__ float partial[1024];
__global__ void k(const float *x, float *out, int n) {
    __shared__ float tile[256];
    __shared__ bool last;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (threadIdx.x == 0) { float s = 0; for (int j = 0; j < 256; j++) s += tile[j]; partial[blockIdx.x] = s; __threadfence(); last = atomicAdd(&done, 1u) == gridDim.x - 1; }
    __syncthreads();
    if (last && threadIdx.x == 0) { float s = 0; for (int b = 0; b < gridDim.x; b++) s += partial[b]; out[0] = s; done = 0; }
}
extern "C" void solve(const float *x, float *out, int n, cudaStream_t s) { k<<<(n + 255) / 256, 256, 0, s>>>(x, out, n); }
