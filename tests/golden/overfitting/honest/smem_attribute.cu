extern __shared__ float smem[];
__constant__ float taps[9];
__global__ void k(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 9) smem[threadIdx.x] = taps[threadIdx.x] * x[0];
    __syncthreads();
    if (i < n) { smem[threadIdx.x] = x[i]; if (smem[threadIdx.x] > 0) smem[threadIdx.x] = x[i] * 2; out[i] = smem[threadIdx.x] * taps[0]; }
}
extern "C" void solve(const float *x, const float *w, float *out, int n, cudaStream_t s) {
    static bool configured = false;
    if (!configured) { cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536); configured = true; }
    cudaMemcpyToSymbolAsync(taps, w, sizeof taps, 0, cudaMemcpyDeviceToDevice, s);
    k<<<(n + 255) / 256, 256, 1024, s>>>(x, out, n);
}
