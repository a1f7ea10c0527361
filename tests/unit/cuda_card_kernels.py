"""CUDA kernels in several hands' styles, for cards that transform them."""

KERNELS = {
    "softmax": """
#include <cuda_runtime.h>
constexpr int THREADS = 256;
__global__ void softmax_rows(const float* input, float* output, int D) {
    __shared__ float partial[THREADS];
    const float* row = input + (size_t)blockIdx.x * D;
    float* result = output + (size_t)blockIdx.x * D;
    int t = threadIdx.x;
    float largest = -INFINITY;
    for (int j = t; j < D; j += THREADS) {
        largest = fmaxf(largest, row[j]);
    }
    partial[t] = largest;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half) {
            partial[t] = fmaxf(partial[t], partial[t + half]);
        }
        __syncthreads();
    }
    largest = partial[0];
    __syncthreads();
    float sum = 0.0f;
    for (int j = t; j < D; j += THREADS) {
        sum += expf(row[j] - largest);
    }
    partial[t] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half) {
            partial[t] += partial[t + half];
        }
        __syncthreads();
    }
    sum = partial[0];
    for (int j = t; j < D; j += THREADS) {
        result[j] = expf(row[j] - largest) / sum;
    }
}
extern "C" void solve(const float* input, float* output, int N, int D) {
    softmax_rows<<<N, THREADS>>>(input, output, D);
    cudaDeviceSynchronize();
}
""",
    "rmsnorm": """
#include <cuda_runtime.h>
#define NT 128
// RMS norm; two kernels, dim3 launches, blockDim in the tree — a dash that takes three bytes
static __global__ void __launch_bounds__(NT, 2) squares(float *x, float *scale, int h) {
    __shared__ float s_sum[NT];
    const int tid = threadIdx.x;
    float acc = 0.f;
    for (int c = threadIdx.x; c < h; c += blockDim.x)
        acc += x[blockIdx.x * h + c] * x[blockIdx.x * h + c];
    s_sum[tid] = acc;
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) s_sum[tid] = s_sum[tid] + s_sum[tid + s];
        __syncthreads();
    }
    if (tid == 0) scale[blockIdx.x] = 1.0f / sqrtf(s_sum[0] / h + 1e-6f);
}
static __global__ void apply_scale(const float *x, const float *w, const float *scale, float *y,
                                   int h) {
    for (int c = threadIdx.x; c < h; c += blockDim.x)
        y[blockIdx.x * h + c] = x[blockIdx.x * h + c] * scale[blockIdx.x] * w[c];
}
extern "C" void solve(float *x, const float *w, float *scale, float *y, int n, int h) {
    dim3 block(NT);
    dim3 grid(n);
    squares<<<grid, block, 0, 0>>>(x, scale, h);
    apply_scale<<<grid, block>>>(x, w, scale, y, h);
}
""",
    "two_outputs": """
#include <cuda_runtime.h>
template <typename T>
__global__ void both(const T* a, const T* b, T* sum, T* product, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    sum[i] = a[i] + b[i];
    product[i] = a[i] * b[i];
}
extern "C" void solve(const float* a, const float* b, float* sum, float* product, int n)
{
    const int threads = 256;
    both<float><<<(n + threads - 1) / threads, threads>>>(a, b, sum, product, n);
}
""",
    "gelu": """
#include <cuda_runtime.h>
__device__ float gelu(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}
__global__ void map(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = gelu(x[i]);
}
extern "C" void solve(const float* x, float* y, int N) {
    map<<<(N + 255) / 256, 256>>>(x, y, N);
}
""",
    "grid_stride": """
#include <cuda_runtime.h>
__global__ void axpy(const float* x, const float* y, float* out, float a, int n) {
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        float v = x[i];
        out[i] = a * v / (1.0f + expf(-y[i]));
    }
}
extern "C" void solve(const float* x, const float* y, float* out, int n) {
    axpy<<<26, 256>>>(x, y, out, 0.5f, n);
}
""",
    "transpose": """
#include <cuda_runtime.h>
#define SIDE 32
__global__ void transpose(const float* in, float* out, int rows, int cols) {
    __shared__ float tile[SIDE][SIDE], other[SIDE][SIDE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    int c = blockIdx.x * SIDE + tx, r = blockIdx.y * SIDE + ty;
    if (r < rows && c < cols) tile[ty][tx] = in[(size_t)r * cols + c];
    other[ty][tx] = 1.0f;
    __syncthreads();
    c = blockIdx.y * SIDE + tx;
    r = blockIdx.x * SIDE + ty;
    if (r < cols && c < rows) out[(size_t)r * rows + c] = tile[tx][ty] * other[ty][tx];
}
extern "C" void solve(const float* in, float* out, int rows, int cols) {
    dim3 grid((cols + SIDE - 1) / SIDE, (rows + SIDE - 1) / SIDE);
    transpose<<<grid, dim3(SIDE, SIDE)>>>(in, out, rows, cols);
}
""",
    "in_place": """
#include <cuda_runtime.h>
__global__ void shift(const float* from, float* to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i] + 1.0f;
}
extern "C" void solve(float* x, int n) {
    shift<<<(n + 255) / 256, 256>>>(x, x, n);
}
""",
}
DIMS = {
    "softmax": {"N": 3, "D": 1000},
    "rmsnorm": {"n": 5, "h": 777},
    "two_outputs": {"n": 2051},
    "gelu": {"N": 1027},
    "grid_stride": {"n": 20003},
    "transpose": {"rows": 40, "cols": 70},
    "in_place": {"n": 1000},
}
ODD = {
    "softmax": {"N": 2, "D": 1501},
    "rmsnorm": {"n": 2, "h": 512},
    "two_outputs": {"n": 3},
    "gelu": {"N": 1},
    "grid_stride": {"n": 5},
    "transpose": {"rows": 1, "cols": 33},
    "in_place": {"n": 258},
}
