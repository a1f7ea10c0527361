// Multi-head attention: N tokens of width d, split into h heads of d / h columns each.
//   output = softmax(Q K^T / sqrt(d / h)) V, head by head
// One block per 64 tokens and head: it goes over the keys in tiles of 64 with an online softmax. Both
// products are on the tensor cores: every float is cut into three bfloat16 (exactly its 24 bits), and
// the six products of them that reach float32's last bit are added up in float32. A warp has 16 tokens;
// Q, scores and outputs stay in registers.
#include <cuda_runtime.h>
#include <stdint.h>

constexpr int SIDE = 64;         // tokens of a block, keys of a tile, columns of a head
constexpr int PITCH = SIDE + 8;  // in bfloat16; 144 bytes: 8 rows of 16 bytes are free of conflicts
constexpr int PART = SIDE * PITCH;
constexpr int THREADS = 128;
constexpr int SHARED_BYTES = 2 * 3 * PART * 2;

// Any other shape: one block per token and head, with that token's N scores in shared memory.
__device__ float block_fold(float value, bool maximum, float* partial) {
    int t = threadIdx.x;
    partial[t] = value;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (t < half) {
            partial[t] = maximum ? fmaxf(partial[t], partial[t + half])
                                 : partial[t] + partial[t + half];
        }
        __syncthreads();
    }
    float result = partial[0];
    __syncthreads();
    return result;
}

__global__ void attention_any(const float* Q, const float* K, const float* V, float* output, int N,
                              int d, int width) {
    extern __shared__ float score[];
    __shared__ float partial[128];
    int i = blockIdx.x;
    int first = blockIdx.y * width;
    float scale = rsqrtf((float)width);
    float largest = -INFINITY;
    for (int j = threadIdx.x; j < N; j += 128) {
        float dot = 0.0f;
        for (int c = 0; c < width; c++) {
            dot += Q[(size_t)i * d + first + c] * K[(size_t)j * d + first + c];
        }
        score[j] = dot * scale;
        largest = fmaxf(largest, score[j]);
    }
    largest = block_fold(largest, true, partial);
    float sum = 0.0f;
    for (int j = threadIdx.x; j < N; j += 128) {
        score[j] = expf(score[j] - largest);
        sum += score[j];
    }
    sum = block_fold(sum, false, partial);
    for (int c = threadIdx.x; c < width; c += 128) {
        float value = 0.0f;
        for (int j = 0; j < N; j++) {
            value += score[j] * V[(size_t)j * d + first + c];
        }
        output[(size_t)i * d + first + c] = value / sum;
    }
}

// Two floats rounded to bfloat16; the first is in the lower half, as the matrix instructions want it.
__device__ __forceinline__ uint32_t pack(float x, float y) {
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
    return both;
}

// x = high + middle + low, exactly: each is the rest rounded to the 8 bits of a bfloat16, and the last
// rest has no more. The same for y.
__device__ __forceinline__ void split(float x, float y, uint32_t& high, uint32_t& middle,
                                      uint32_t& low) {
    high = pack(x, y);
    x -= __uint_as_float(high << 16);
    y -= __uint_as_float(high & 0xffff0000u);
    middle = pack(x, y);
    x -= __uint_as_float(middle << 16);
    y -= __uint_as_float(middle & 0xffff0000u);
    low = pack(x, y);
}

__device__ __forceinline__ void load4(uint32_t* r, const uint16_t* from) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void load4_transposed(uint32_t* r, const uint16_t* from) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void multiply(float* c, const uint32_t* a, const uint32_t* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Four floats into the three parts of a tile.
__device__ __forceinline__ void put(uint16_t* to, float4 v) {
    uint2 high, middle, low;
    split(v.x, v.y, high.x, middle.x, low.x);
    split(v.z, v.w, high.y, middle.y, low.y);
    *reinterpret_cast<uint2*>(to) = high;
    *reinterpret_cast<uint2*>(to + PART) = middle;
    *reinterpret_cast<uint2*>(to + 2 * PART) = low;
}

// N is a multiple of 64, and a head has 64 columns.
__global__ __launch_bounds__(THREADS, 2) void attention_tile(const float* __restrict__ Q,
                                                             const float* __restrict__ K,
                                                             const float* __restrict__ V,
                                                             float* __restrict__ output, int N,
                                                             int d) {
    extern __shared__ __align__(16) uint16_t shared[];
    uint16_t* k_tile = shared;             // [part][key][column]
    uint16_t* v_tile = shared + 3 * PART;  // [part][key][column]
    int t = threadIdx.x;
    int lane = t % 32;
    int first = blockIdx.y * SIDE;
    int token = blockIdx.x * SIDE + t / 32 * 16 + lane / 4;  // and token + 8
    float scale = rsqrtf((float)SIDE) * 1.4426950408889634f;

    uint32_t q[3][4][4];  // part, slice of 16 columns, fragment
    const float* q_from = Q + (size_t)token * d + first + lane % 4 * 2;
#pragma unroll
    for (int s = 0; s < 4; s++) {
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float2 v = *reinterpret_cast<const float2*>(q_from + (size_t)(r % 2 * 8) * d + s * 16 +
                                                        r / 2 * 8);
            split(v.x * scale, v.y * scale, q[0][s][r], q[1][s][r], q[2][s][r]);
        }
    }

    int row = t / 16;      // of a tile to copy: row + 8 i
    int col = t % 16 * 4;
    const float* k_from = K + (size_t)row * d + first + col;
    const float* v_from = V + (size_t)row * d + first + col;
    int to = row * PITCH + col;
    int k_at = (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 8;
    int v_at = lane % 16 * PITCH + lane / 16 * 8;

    float out[8][4] = {};
    float largest[2] = {-INFINITY, -INFINITY};
    float sum[2] = {};
    for (int key = 0; key < N; key += SIDE) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++) {
            size_t at = (size_t)(key + 8 * i) * d;
            put(k_tile + to + 8 * i * PITCH, *reinterpret_cast<const float4*>(k_from + at));
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            size_t at = (size_t)(key + 8 * i) * d;
            put(v_tile + to + 8 * i * PITCH, *reinterpret_cast<const float4*>(v_from + at));
        }
        __syncthreads();
        float s[8][4] = {};
#pragma unroll
        for (int c = 0; c < 4; c++) {
            // The smallest products first.
#pragma unroll
            for (int y = 2; y >= 0; y--) {
                uint32_t b[8][2];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    load4(b[2 * j], k_tile + y * PART + k_at + j * 16 * PITCH + c * 16);
                }
#pragma unroll
                for (int x = 2 - y; x >= 0; x--) {
#pragma unroll
                    for (int j = 0; j < 8; j++) {
                        multiply(s[j], q[x][c], b[j]);
                    }
                }
            }
        }

#pragma unroll
        for (int i = 0; i < 2; i++) {
            float m = -INFINITY;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                m = fmaxf(m, fmaxf(s[j][2 * i], s[j][2 * i + 1]));
            }
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
            m = fmaxf(m, largest[i]);
            float shrink = exp2_fast(largest[i] - m);
            largest[i] = m;
            float part = 0.0f;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                s[j][2 * i] = exp2_fast(s[j][2 * i] - m);
                s[j][2 * i + 1] = exp2_fast(s[j][2 * i + 1] - m);
                part += s[j][2 * i] + s[j][2 * i + 1];
                out[j][2 * i] *= shrink;
                out[j][2 * i + 1] *= shrink;
            }
            sum[i] = sum[i] * shrink + part;
        }

#pragma unroll
        for (int c = 0; c < 4; c++) {
            uint32_t p[3][4];
            split(s[2 * c][0], s[2 * c][1], p[0][0], p[1][0], p[2][0]);
            split(s[2 * c][2], s[2 * c][3], p[0][1], p[1][1], p[2][1]);
            split(s[2 * c + 1][0], s[2 * c + 1][1], p[0][2], p[1][2], p[2][2]);
            split(s[2 * c + 1][2], s[2 * c + 1][3], p[0][3], p[1][3], p[2][3]);
#pragma unroll
            for (int y = 2; y >= 0; y--) {
                uint32_t b[8][2];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    load4_transposed(b[2 * j], v_tile + y * PART + v_at + c * 16 * PITCH + j * 16);
                }
#pragma unroll
                for (int x = 2 - y; x >= 0; x--) {
#pragma unroll
                    for (int j = 0; j < 8; j++) {
                        multiply(out[j], p[x], b[j]);
                    }
                }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < 2; i++) {
        sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], 1);
        sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], 2);
        float inverse = 1.0f / sum[i];
        float* result = output + (size_t)(token + 8 * i) * d + first + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            *reinterpret_cast<float2*>(result + j * 8) =
                make_float2(out[j][2 * i] * inverse, out[j][2 * i + 1] * inverse);
        }
    }
}

extern "C" void solve(const float* Q, const float* K, const float* V, float* output, int N, int d,
                      int h) {
    if (N % SIDE == 0 && d == h * SIDE) {
        cudaFuncSetAttribute(attention_tile, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             SHARED_BYTES);
        attention_tile<<<dim3(N / SIDE, h), THREADS, SHARED_BYTES>>>(Q, K, V, output, N, d);
    } else {
        attention_any<<<dim3(N, h), 128, N * sizeof(float)>>>(Q, K, V, output, N, d, d / h);
    }
}
