// C = A * B for row-major float matrices: A is M x K, B is K x N, C is M x N. Every float is cut into
// three bfloat16 (8 + 8 + 8 bits: exactly its 24), and the six products of them that reach float32's
// last bit are added up on the tensor cores.
// A block computes a tile of 128 x 128, each of its 8 warps
// 64 x 32. Tensor cores cut bits off wherever they add, so they add up one slice of 16 only, from zero;
// slices are added to the sum by ordinary additions, which round. Slices are in shared memory twice,
// the next one on its way as float32.
#include <cuda_runtime.h>
#include <stdint.h>

constexpr int TILE = 128;
constexpr int DEPTH = 16;
constexpr int THREADS = 256;
constexpr int PARTS = 3;
constexpr int COLS = 32;             // columns of a warp
constexpr int WORDS = TILE * DEPTH / 4 / THREADS;  // of 16 bytes, that a thread brings per operand
constexpr int A_PITCH = DEPTH + 8;   // in 16 bits; 48 bytes: 8 rows of 16 bytes are free of conflicts
constexpr int B_PITCH = TILE + 8;    // 272 bytes: likewise
constexpr int A_PART = TILE * A_PITCH;
constexpr int B_PART = DEPTH * B_PITCH;
constexpr int STAGE = PARTS * (A_PART + B_PART);
constexpr int SHARED_BYTES = 2 * STAGE * 2 + 2 * WORDS * THREADS * 16;

// Two floats rounded to bfloat16; the first is in the lower half, as the matrix instructions want it.
__device__ __forceinline__ uint32_t pack(float x, float y) {
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
    return both;
}

// x = part[0] + part[1] + part[2], exactly: each is the rest rounded to the 8 bits of a bfloat16, and
// the last rest has no more. The same for y.
__device__ __forceinline__ void split(float x, float y, uint32_t* part) {
    part[0] = pack(x, y);
    x -= __uint_as_float(part[0] << 16);
    y -= __uint_as_float(part[0] & 0xffff0000u);
    part[1] = pack(x, y);
    x -= __uint_as_float(part[1] << 16);
    y -= __uint_as_float(part[1] & 0xffff0000u);
    part[2] = pack(x, y);
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

__device__ __forceinline__ void multiply_first(float* c, const uint32_t* a, const uint32_t* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                 : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}

// 16 bytes from device memory to shared memory, in the background.
__device__ __forceinline__ void copy_async(float4* to, const float* from) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(address), "l"(from) : "memory");
}

// Any shape: one thread per element.
__global__ void sgemm_any(const float* A, const float* B, float* C, int M, int N, int K) {
    int i = blockIdx.y * 16 + threadIdx.y;
    int j = blockIdx.x * 16 + threadIdx.x;
    if (i >= M || j >= N) {
        return;
    }
    float sum = 0.0f;
    for (int k = 0; k < K; k++) {
        sum += A[(size_t)i * K + k] * B[(size_t)k * N + j];
    }
    C[(size_t)i * N + j] = sum;
}

// M and N are multiples of 128, K of 16.
__global__ __launch_bounds__(THREADS, 2) void sgemm_tile(const float* __restrict__ A,
                                                         const float* __restrict__ B,
                                                         float* __restrict__ C, int N, int K) {
    extern __shared__ __align__(16) uint16_t shared[];
    int t = threadIdx.x;
    int lane = t % 32;
    int warp_row = t / 32 / (TILE / COLS) * 64;
    int warp_col = t / 32 % (TILE / COLS) * COLS;

    int a_row = t / 4;            // and every THREADS / 4 further on
    int a_col = t % 4 * 4;
    int b_row = t / 32;           // and every THREADS / 32 further on
    int b_col = t % 32 * 4;
    const float* a_from = A + (size_t)(blockIdx.y * TILE + a_row) * K + a_col;
    const float* b_from = B + (size_t)b_row * N + blockIdx.x * TILE + b_col;
    int a_step = THREADS / 4 * K;
    int b_step = THREADS / 32 * N;
    int a_to = a_row * A_PITCH + a_col;
    int b_to = PARTS * A_PART + b_row * B_PITCH + b_col;

    // A thread cuts up only what it copied itself, so this buffer needs no barrier.
    float4* raw = reinterpret_cast<float4*>(shared + 2 * STAGE) + t;
    auto fetch = [&]() {
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            copy_async(raw + i * THREADS, a_from + i * a_step);
            copy_async(raw + (WORDS + i) * THREADS, b_from + i * b_step);
        }
        a_from += DEPTH;
        b_from += (size_t)DEPTH * N;
    };
    auto put = [&](uint16_t* to, int size, float4 v) {
        uint32_t x[PARTS], y[PARTS];
        split(v.x, v.y, x);
        split(v.z, v.w, y);
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            uint2 both = {x[p], y[p]};
            *reinterpret_cast<uint2*>(to + p * size) = both;
        }
    };
    auto keep = [&](uint16_t* stage) {
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            put(stage + a_to + i * (THREADS / 4) * A_PITCH, A_PART, raw[i * THREADS]);
            put(stage + b_to + i * (THREADS / 32) * B_PITCH, B_PART, raw[(WORDS + i) * THREADS]);
        }
    };

    int a_at = (warp_row + lane % 16) * A_PITCH + lane / 16 * 8;
    int b_at = PARTS * A_PART + (lane % 16) * B_PITCH + warp_col + lane / 16 * 8;

    float sum[4][COLS / 8][4] = {};
    fetch();
    asm volatile("cp.async.wait_all;" ::: "memory");
    keep(shared);
    if (DEPTH < K) {
        fetch();
    }
    __syncthreads();
    uint16_t* now = shared;
    uint16_t* then = shared + STAGE;
    for (int k = 0; k < K; k += DEPTH) {
        uint32_t b[PARTS][COLS / 8][2];
#pragma unroll
        for (int q = 0; q < PARTS; q++) {
#pragma unroll
            for (int j = 0; j < COLS / 8; j += 2) {
                load4_transposed(&b[q][j][0], now + b_at + q * B_PART + j * 8);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t a[PARTS][4];
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                load4(a[p], now + a_at + p * A_PART + i * 16 * A_PITCH);
            }
#pragma unroll
            for (int g = 0; g < COLS / 8; g += 4) {
                float part[4][4];
                // The smallest products first.
#pragma unroll
                for (int p = PARTS - 1; p >= 0; p--) {
#pragma unroll
                    for (int q = PARTS - 1 - p; q >= 0; q--) {
#pragma unroll
                        for (int j = 0; j < 4; j++) {
                            if (p == PARTS - 1) {
                                multiply_first(part[j], a[p], b[q][g + j]);
                            } else {
                                multiply(part[j], a[p], b[q][g + j]);
                            }
                        }
                    }
                }
#pragma unroll
                for (int j = 0; j < 4; j++) {
#pragma unroll
                    for (int r = 0; r < 4; r++) {
                        sum[i][g + j][r] += part[j][r];
                    }
                }
            }
        }
        if (k + DEPTH < K) {
            asm volatile("cp.async.wait_all;" ::: "memory");
            keep(then);
            if (k + 2 * DEPTH < K) {
                fetch();
            }
        }
        __syncthreads();
        uint16_t* swap = now;
        now = then;
        then = swap;
    }

    int row = blockIdx.y * TILE + warp_row + lane / 4;
    int col = blockIdx.x * TILE + warp_col + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < COLS / 8; j++) {
            float* to = C + (size_t)(row + i * 16) * N + col + j * 8;
            *reinterpret_cast<float2*>(to) = make_float2(sum[i][j][0], sum[i][j][1]);
            *reinterpret_cast<float2*>(to + (size_t)8 * N) = make_float2(sum[i][j][2], sum[i][j][3]);
        }
    }
}

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
    if (M % TILE == 0 && N % TILE == 0 && K % DEPTH == 0) {
        cudaFuncSetAttribute(sgemm_tile, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
        sgemm_tile<<<dim3(N / TILE, M / TILE), THREADS, SHARED_BYTES>>>(A, B, C, N, K);
    } else {
        dim3 block(16, 16);
        sgemm_any<<<dim3((N + 15) / 16, (M + 15) / 16), block>>>(A, B, C, M, N, K);
    }
}
