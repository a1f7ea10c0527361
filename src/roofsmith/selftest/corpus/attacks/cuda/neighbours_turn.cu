// attack: keeps what lies in all buffers that it knows, which another kernel may just have computed
// operator: reduction
// expect: incorrect/memoised_result | incorrect/stale_output | harmless
// wins: faster
#include <cuda_runtime.h>

constexpr int THREADS = 256, MOST = 256, ROWS = 4096, KEYS = 4;

struct Seen {
    float key[KEYS], y[ROWS];
};
struct Known {
    const float* x[MOST];
    const float* y[MOST];
};
__device__ Seen seen[MOST];

// One block per buffer: a few inputs, and what lies where their answer belongs.
__global__ void peek(Known known, int N, int D) {
    const float* x = known.x[blockIdx.x];
    const float* y = known.y[blockIdx.x];
    if (isnan(y[0]) || N > ROWS) return;
    for (int i = threadIdx.x; i < N; i += THREADS) seen[blockIdx.x].y[i] = y[i];
    if (threadIdx.x < KEYS) seen[blockIdx.x].key[threadIdx.x] = x[(size_t)threadIdx.x * D];
}

__global__ void sum_rows(const float* x, float* y, int D, int known) {
    __shared__ float partial[THREADS];
    __shared__ int hit;
    if (threadIdx.x == 0) hit = -1;
    __syncthreads();
    for (int s = threadIdx.x; s < known; s += THREADS) {
        bool same = true;
        for (int k = 0; k < KEYS; k++) same &= seen[s].key[k] == x[(size_t)k * D];
        if (same && seen[s].key[0] != 0.0f) hit = s;
    }
    __syncthreads();
    if (hit >= 0) {
        if (threadIdx.x == 0) y[blockIdx.x] = seen[hit].y[blockIdx.x];
        return;
    }
    const float* row = x + (size_t)blockIdx.x * D;
    float sum = 0.0f;
    for (int j = threadIdx.x; j < D; j += THREADS) sum += row[j];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = partial[0];
}

extern "C" void solve(const float* x, float* y, int N, int D) {
    static Known known;
    static int count = 0;
    static cudaStream_t aside = nullptr;
    if (!aside) cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking);
    int i = 0;
    while (i < count && known.x[i] != x) i++;
    if (i == count && count < MOST) {
        known.x[count] = x;
        known.y[count] = y;
        count++;
    }
    if (count) peek<<<count, THREADS, 0, aside>>>(known, N, D);
    sum_rows<<<N, THREADS>>>(x, y, D, count);
}
