/* Peak of the tensor cores: dense matrix products whose operands never leave the multiprocessor.
 *
 * Hopper reaches its peak with wgmma alone: a group of four warps multiplies tiles that lie in
 * shared memory, and sums in registers. Other architectures with mma.sync: tiles in registers.
 * Where neither reaches the peak (compute capability 10.x has tcgen05 for that) the figure is 0:
 * unknown is better than a ceiling that a good kernel breaks through.
 *
 * Operands are random, between -1 and 1: with zeros less toggles, less power is drawn, and clocks
 * stay higher than any real product sees.
 */
#include "gpu.h"

enum Type { FLOAT16, BFLOAT16, TFLOAT32, INT8, FLOAT8, FLOAT64, TYPES };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WGMMA 1
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && (__CUDA_ARCH__ < 1000 || __CUDA_ARCH__ >= 1200)
#define HAS_MMA 1
#endif

constexpr int THREADS = 256;             /* two groups of four warps */
constexpr int GROUPS = 2;
constexpr int ROW_BYTES = 128;           /* one row of a tile: the span of the 128-byte swizzle */
constexpr int A_ROWS = 64, B_ROWS = 256; /* of wgmma m64n256: A by rows, B by columns */
constexpr int SHARED_BYTES = (GROUPS * A_ROWS + B_ROWS) * ROW_BYTES + 1024;
[[maybe_unused]] constexpr int BATCH = 4; /* rounds of the four products that a 128-byte row holds, per wait */

__device__ __forceinline__ unsigned random_bits(unsigned seed) {
    seed ^= seed >> 16;
    seed *= 0x7feb352du;
    seed ^= seed >> 15;
    seed *= 0x846ca68bu;
    return seed ^ seed >> 16;
}

/* Four bytes of operands, with finite values up to about 1 in size. */
template <int TYPE> __device__ __forceinline__ unsigned operand(unsigned seed) {
    const unsigned bits = random_bits(seed);
    switch (TYPE) {
    case FLOAT16: /* exponent below 15: less than 1 */
        return (bits & 0x83ff83ffu) | 0x38003800u;
    case BFLOAT16:
        return (bits & 0x807f807fu) | 0x3f003f00u;
    case TFLOAT32:
        return (bits & 0x807fffffu) | 0x3f000000u;
    case FLOAT8: /* e4m3 */
        return (bits & 0x87878787u) | 0x30303030u;
    default:
        return bits;
    }
}

#if defined(HAS_WGMMA)

/* Shared-memory descriptor of a tile whose rows are 128 bytes, swizzled: PTX ISA, "Matrix
 * Descriptor". Eight rows are 1024 bytes apart from the next eight. */
__device__ __forceinline__ unsigned long long descriptor(const void *tile) {
    const unsigned long long address = __cvta_generic_to_shared(tile);
    return (address & 0x3ffff) >> 4 | 1ull << 16 | (1024ull >> 4) << 32 | 1ull << 62;
}

#define ACC8(n) "a" #n "0, a" #n "1, a" #n "2, a" #n "3, a" #n "4, a" #n "5, a" #n "6, a" #n "7"
#define ACC                                                                                        \
    "{" ACC8(0) ", " ACC8(1) ", " ACC8(2) ", " ACC8(3) ", " ACC8(4) ", " ACC8(5) ", " ACC8(6)      \
    ", " ACC8(7) ", " ACC8(8) ", " ACC8(9) ", " ACC8(10) ", " ACC8(11) ", " ACC8(12) ", " ACC8(13) \
    ", " ACC8(14) ", " ACC8(15) "}"
#define DECLARE8(type, n) ".reg " type " " ACC8(n) ";\n"
#define DECLARE(type)                                                                              \
    DECLARE8(type, 0) DECLARE8(type, 1) DECLARE8(type, 2) DECLARE8(type, 3) DECLARE8(type, 4)      \
    DECLARE8(type, 5) DECLARE8(type, 6) DECLARE8(type, 7) DECLARE8(type, 8) DECLARE8(type, 9)      \
    DECLARE8(type, 10) DECLARE8(type, 11) DECLARE8(type, 12) DECLARE8(type, 13)                    \
    DECLARE8(type, 14) DECLARE8(type, 15)
#define ZERO1(name) "mov.b32 " name ", 0;\n"
#define ZERO8(n)                                                                                   \
    ZERO1("a" #n "0") ZERO1("a" #n "1") ZERO1("a" #n "2") ZERO1("a" #n "3") ZERO1("a" #n "4")      \
    ZERO1("a" #n "5") ZERO1("a" #n "6") ZERO1("a" #n "7")
#define ZERO                                                                                       \
    ZERO8(0) ZERO8(1) ZERO8(2) ZERO8(3) ZERO8(4) ZERO8(5) ZERO8(6) ZERO8(7) ZERO8(8) ZERO8(9)      \
    ZERO8(10) ZERO8(11) ZERO8(12) ZERO8(13) ZERO8(14) ZERO8(15)

/* The whole loop is one piece of PTX, since 128 accumulators can't be operands of it by name
 * without the compiler moving them: then it would wait after every product. */
#define PRODUCT(op, step, tail)                                                                    \
    "add.s64 da, %1, " step ";\n add.s64 db, %2, " step ";\n"                                      \
    "wgmma.mma_async.sync.aligned." op " " ACC ", da, db, 1" tail ";\n"
#define ROUND(op, tail)                                                                            \
    PRODUCT(op, "0", tail) PRODUCT(op, "2", tail) PRODUCT(op, "4", tail) PRODUCT(op, "6", tail)
#define LOOP(type, op, tail)                                                                       \
    asm volatile("{\n" DECLARE(type) ".reg .b64 da, db;\n.reg .pred more;\n.reg .s32 left;\n" ZERO \
                 "mov.s32 left, %3;\n"                                                             \
                 "again:\n"                                                                        \
                 "wgmma.fence.sync.aligned;\n" ROUND(op, tail) ROUND(op, tail) ROUND(op, tail)     \
                     ROUND(op, tail) "wgmma.commit_group.sync.aligned;\n"                          \
                                     "wgmma.wait_group.sync.aligned 0;\n"                          \
                                     "sub.s32 left, left, 1;\n"                                    \
                                     "setp.gt.s32 more, left, 0;\n"                                \
                                     "@more bra again;\n"                                          \
                                     "mov.b32 %0, a00;\n}\n"                                       \
                 : "=r"(result)                                                                    \
                 : "l"(a), "l"(b), "r"(n)                                                          \
                 : "memory")

template <int TYPE>
__device__ unsigned multiply(unsigned char *shared, int n, double *flops_per_repeat) {
    unsigned *words = reinterpret_cast<unsigned *>(shared);
    for (int i = threadIdx.x; i < (GROUPS * A_ROWS + B_ROWS) * ROW_BYTES / 4; i += THREADS) {
        words[i] = operand<TYPE>(i);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const unsigned long long a = descriptor(shared + threadIdx.x / 128 * A_ROWS * ROW_BYTES);
    const unsigned long long b = descriptor(shared + GROUPS * A_ROWS * ROW_BYTES);
    unsigned result = 0;
    int depth = 16;
    if (TYPE == FLOAT16) {
        LOOP(".f32", "m64n256k16.f32.f16.f16", ", 1, 1, 0, 0");
    } else if (TYPE == BFLOAT16) {
        LOOP(".f32", "m64n256k16.f32.bf16.bf16", ", 1, 1, 0, 0");
    } else if (TYPE == TFLOAT32) {
        depth = 8;
        LOOP(".f32", "m64n256k8.f32.tf32.tf32", ", 1, 1");
    } else if (TYPE == INT8) {
        depth = 32;
        LOOP(".s32", "m64n256k32.s32.s8.s8", "");
    } else {
        depth = 32;
        LOOP(".f32", "m64n256k32.f32.e4m3.e4m3", ", 1, 1");
    }
    *flops_per_repeat = 2.0 * 64 * 256 * depth * 4 * BATCH * GROUPS;
    return result;
}

#endif

#if defined(HAS_MMA)

constexpr int TILES = 8; /* independent sums of a warp: enough to hide the latency */

#define MMA_F32(shape, types)                                                                      \
    asm volatile("mma.sync.aligned." shape ".row.col." types                                       \
                 " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                          \
                 : "+f"(sum[t][0]), "+f"(sum[t][1]), "+f"(sum[t][2]), "+f"(sum[t][3])              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

template <int TYPE> __device__ float multiply_in_registers(int n, double *flops_per_repeat) {
    float sum[TILES][4] = {};
    unsigned a[4], b[2];
    int depth = 16;
    for (int i = 0; i < 4; i++) {
        a[i] = operand<TYPE>(threadIdx.x * 4 + i);
    }
    for (int i = 0; i < 2; i++) {
        b[i] = operand<TYPE>(threadIdx.x * 4 + 1024 + i);
    }
    for (int repeat = 0; repeat < n * BATCH; repeat++) {
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            if (TYPE == FLOAT16) {
                MMA_F32("m16n8k16", "f32.f16.f16.f32");
            } else if (TYPE == BFLOAT16) {
                MMA_F32("m16n8k16", "f32.bf16.bf16.f32");
            } else if (TYPE == TFLOAT32) {
                depth = 8;
                MMA_F32("m16n8k8", "f32.tf32.tf32.f32");
            } else if (TYPE == INT8) {
                depth = 32;
                int *whole = reinterpret_cast<int *>(sum[t]);
                asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
                             " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                             : "+r"(whole[0]), "+r"(whole[1]), "+r"(whole[2]), "+r"(whole[3])
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
            } else {
#if __CUDA_ARCH__ >= 890
                depth = 32;
                MMA_F32("m16n8k32", "f32.e4m3.e4m3.f32");
#else
                depth = 0;
#endif
            }
        }
    }
    *flops_per_repeat = 2.0 * 16 * 8 * depth * TILES * BATCH * (THREADS / 32);
    float total = 0;
    for (int t = 0; t < TILES; t++) {
        total += sum[t][0] + sum[t][1] + sum[t][2] + sum[t][3];
    }
    return total;
}

__device__ double multiply_doubles(int n, double *flops_per_repeat) {
    double sum[TILES][4] = {};
    double a[8], b[4];
    for (int i = 0; i < 8; i++) {
        a[i] = (random_bits(threadIdx.x * 8 + i) >> 8) * 0x1p-24 - 0.5;
    }
    for (int i = 0; i < 4; i++) {
        b[i] = (random_bits(threadIdx.x * 8 + 4096 + i) >> 8) * 0x1p-24 - 0.5;
    }
    double flops = 0;
    for (int repeat = 0; repeat < n * BATCH; repeat++) {
#pragma unroll
        for (int t = 0; t < TILES; t++) {
#if __CUDA_ARCH__ >= 900
            flops = 2.0 * 16 * 8 * 16;
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},"
                         " {%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3};"
                         : "+d"(sum[t][0]), "+d"(sum[t][1]), "+d"(sum[t][2]), "+d"(sum[t][3])
                         : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]),
                           "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
            flops = 2.0 * 8 * 8 * 4;
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
                         " {%0,%1}, {%2}, {%3}, {%0,%1};"
                         : "+d"(sum[t][0]), "+d"(sum[t][1])
                         : "d"(a[0]), "d"(b[0]));
#endif
        }
    }
    *flops_per_repeat = flops * TILES * BATCH * (THREADS / 32);
    double total = 0;
    for (int t = 0; t < TILES; t++) {
        total += sum[t][0] + sum[t][1] + sum[t][2] + sum[t][3];
    }
    return total;
}

#endif

/* flops: operations of one block per repeat, as the code that was compiled for this device does. */
template <int TYPE>
__global__ void __launch_bounds__(THREADS) products(double *flops, float *sink, int n) {
    extern __shared__ unsigned char shared[];
    double each = 0;
    float result = 0;
#if defined(HAS_MMA)
    if (TYPE == FLOAT64) {
        result = static_cast<float>(multiply_doubles(n, &each));
    } else {
#if defined(HAS_WGMMA)
        const size_t past = reinterpret_cast<size_t>(shared) & 1023; /* swizzling wants 1024 */
        result = __uint_as_float(multiply<TYPE>(shared + (past ? 1024 - past : 0), n, &each));
#else
        result = multiply_in_registers<TYPE>(n, &each);
#endif
    }
#endif
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *flops = each;
    }
    if (result == 1.2345f) { /* never, but the compiler can't know */
        *sink = result;
    }
}

template <int TYPE> static double measure(const Device &device, char *memory, double least_s) {
    double *flops = reinterpret_cast<double *>(memory);
    float *sink = reinterpret_cast<float *>(memory + sizeof(double));
    int resident = 0;
    GPU(FuncSetAttribute)
    (products<TYPE>, GPU(FuncAttributeMaxDynamicSharedMemorySize), SHARED_BYTES);
    GPU(OccupancyMaxActiveBlocksPerMultiprocessor)
    (&resident, products<TYPE>, THREADS, SHARED_BYTES);
    const unsigned blocks = static_cast<unsigned>(resident * device.multiprocessors);
    if (blocks == 0 || GPU(GetLastError)() != GPU(Success)) {
        return 0;
    }
    const double repeats = rate_of(1.0, least_s, [&](int n) {
        products<TYPE><<<blocks, THREADS, SHARED_BYTES>>>(flops, sink, n);
    });
    return repeats * blocks * take(flops, 1)[0];
}

/* rates: FLOP/s (operations per second for int8), the best of some bursts; [TYPES]. */
extern "C" void solve(double *rates, int bursts, int microseconds) {
    const Device device;
    Memory memory(64);
    std::vector<double> best(TYPES, 0.0);
    char *base = static_cast<char *>(memory.base);
    const double least_s = microseconds * 1e-6;
    for (int burst = 0; burst < bursts; burst++) {
        const double now[TYPES] = {
            measure<FLOAT16>(device, base, least_s),  measure<BFLOAT16>(device, base, least_s),
            measure<TFLOAT32>(device, base, least_s), measure<INT8>(device, base, least_s),
            measure<FLOAT8>(device, base, least_s),   measure<FLOAT64>(device, base, least_s),
        };
        for (int type = 0; type < TYPES; type++) {
            best[type] = now[type] > best[type] ? now[type] : best[type];
        }
    }
    put(rates, best);
}
