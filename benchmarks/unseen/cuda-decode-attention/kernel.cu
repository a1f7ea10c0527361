// Decoding step of grouped-query attention: scores, softmax and weighted sum, a kernel for each.
//   q, out          [B, G * R, D]
//   k_cache, v_cache [B, G, T, D], of which sequence b has filled lengths[b]
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__global__ void scores_kernel(const __half* q, const __half* k_cache, const int* lengths,
                              float* scores, int G, int R, int T, int D) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int head = blockIdx.y;
    int b = blockIdx.z;
    if (t >= lengths[b]) return;
    const __half* query = q + ((size_t)b * G * R + head) * D;
    const __half* key = k_cache + (((size_t)b * G + head / R) * T + t) * D;
    float dot = 0.0f;
    for (int d = 0; d < D; d++) {
        dot += __half2float(query[d]) * __half2float(key[d]);
    }
    scores[((size_t)b * G * R + head) * T + t] = dot / sqrtf((float)D);
}

__global__ void softmax_kernel(float* scores, const int* lengths, int H, int T) {
    __shared__ float shared[256];
    int tid = threadIdx.x;
    int length = lengths[blockIdx.x / H];
    float* row = scores + (size_t)blockIdx.x * T;

    float largest = -INFINITY;
    for (int t = tid; t < length; t += blockDim.x) largest = fmaxf(largest, row[t]);
    shared[tid] = largest;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (tid < s) shared[tid] = fmaxf(shared[tid], shared[tid + s]);
        __syncthreads();
    }
    largest = shared[0];
    __syncthreads();

    float sum = 0.0f;
    for (int t = tid; t < length; t += blockDim.x) {
        row[t] = expf(row[t] - largest);
        sum += row[t];
    }
    shared[tid] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (tid < s) shared[tid] += shared[tid + s];
        __syncthreads();
    }
    sum = shared[0];
    for (int t = tid; t < length; t += blockDim.x) row[t] = row[t] / sum;
}

__global__ void values_kernel(const float* scores, const __half* v_cache, const int* lengths,
                              __half* out, int G, int R, int T, int D) {
    int head = blockIdx.x;
    int b = blockIdx.y;
    const float* row = scores + ((size_t)b * G * R + head) * T;
    const __half* values = v_cache + ((size_t)b * G + head / R) * T * D;
    for (int d = threadIdx.x; d < D; d += blockDim.x) {
        float sum = 0.0f;
        for (int t = 0; t < lengths[b]; t++) {
            sum += row[t] * __half2float(values[(size_t)t * D + d]);
        }
        out[((size_t)b * G * R + head) * D + d] = __float2half(sum);
    }
}

extern "C" void solve(const __half* q, const __half* k_cache, const __half* v_cache,
                      const int* lengths, float* scores, __half* out, int B, int G, int R, int T,
                      int D) {
    int H = G * R;
    scores_kernel<<<dim3((T + 127) / 128, H, B), 128>>>(q, k_cache, lengths, scores, G, R, T, D);
    softmax_kernel<<<B * H, 256>>>(scores, lengths, H, T);
    values_kernel<<<dim3(H, B), 128>>>(scores, v_cache, lengths, out, G, R, T, D);
}
