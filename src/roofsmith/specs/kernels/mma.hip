/* Peak of AMD's matrix cores: dense matrix products whose operands never leave the registers.
 *
 * Every wave multiplies SIDE operands by SIDE others into as many sums as there are pairs, as a
 * product of matrices does, so that no instruction waits for the one before it. Builtins and shapes
 * are LLVM's (BuiltinsAMDGPU, AMDGPUBuiltins.rst): per target the largest tile, and the instruction
 * that its peak is stated for. What a target has no instruction for has the figure 0, and so has
 * every target that isn't named here: unknown is better than a ceiling that a good kernel breaks
 * through.
 *
 * Operands are random, at most about 1 in size: with zeros less toggles, less power is drawn, and
 * clocks stay higher than any real product sees.
 */
#include "gpu.h"

enum Type { FLOAT16, BFLOAT16, TFLOAT32, INT8, FLOAT8, FLOAT64, FLOAT32, TYPES };

#if defined(__GFX9__)
constexpr int WAVE = 64;
#else
constexpr int WAVE = 32; /* what hipcc compiles later targets for, unless told otherwise */
#endif
constexpr int THREADS = 256; /* a wave per SIMD, or two */
constexpr int SIDE = 2;      /* operands on each side: four sums, enough to hide the latency */
constexpr int BATCH = 16;    /* rounds over all sums, per turn of the loop */

template <class T, int N> using Vector = T __attribute__((ext_vector_type(N)));
template <int N> using Floats = Vector<float, N>;
template <int N> using Ints = Vector<int, N>;

/* Of a type that the target has no instruction for. */
template <int TYPE> struct Unit {
    typedef float Operand;
    typedef Floats<4> Sum;
    static constexpr double OPERATIONS = 0;
    static __device__ Sum product(Operand, Operand, Sum c) { return c; }
};

__device__ __forceinline__ unsigned random_bits(unsigned seed) {
    seed ^= seed >> 16;
    seed *= 0x7feb352du;
    seed ^= seed >> 15;
    seed *= 0x846ca68bu;
    return seed ^ seed >> 16;
}

/* Four bytes of operands, with finite values up to 1 in size. */
template <int TYPE> __device__ __forceinline__ unsigned operand_word(unsigned seed, int word) {
    const unsigned bits = random_bits(seed);
    switch (TYPE) {
    case FLOAT16: /* exponent below 15: less than 1 */
        return (bits & 0x83ff83ffu) | 0x38003800u;
    case BFLOAT16:
        return (bits & 0x807f807fu) | 0x3f003f00u;
    case TFLOAT32:
    case FLOAT32:
        return (bits & 0x807fffffu) | 0x3f000000u;
    case FLOAT8: /* e4m3; half of it in gfx942's, whose bias is 8 */
        return (bits & 0x87878787u) | 0x30303030u;
    case FLOAT64: /* sign and exponent are in the second word */
        return word % 2 ? (bits & 0x800fffffu) | 0x3fe00000u : bits;
    default:
        return bits;
    }
}

template <int TYPE, class Operand> __device__ __forceinline__ Operand operand(unsigned which) {
    constexpr int WORDS = sizeof(Operand) / 4;
    unsigned words[WORDS];
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        words[i] = operand_word<TYPE>((which * THREADS + threadIdx.x) * WORDS + i, i);
    }
    Operand made;
    __builtin_memcpy(&made, words, sizeof(made));
    return made;
}

/* An instruction of m x n x k multiply-adds, which each count as two operations. */
#define UNIT(TYPE, M, N, K, OPERAND, SUM, CALL)                                                    \
    template <> struct Unit<TYPE> {                                                                \
        typedef OPERAND Operand;                                                                   \
        typedef SUM Sum;                                                                           \
        static constexpr double OPERATIONS = 2.0 * M * N * K;                                      \
        static __device__ Sum product(Operand a, Operand b, Sum c) { return CALL; }                \
    };
#define OF(...) __VA_ARGS__
#define MFMA(name) __builtin_amdgcn_mfma_##name(a, b, c, 0, 0, 0)
#define WMMA(name) __builtin_amdgcn_wmma_##name(a, b, c)

#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
UNIT(FLOAT32, 32, 32, 2, float, Floats<16>, MFMA(f32_32x32x2f32))
UNIT(FLOAT64, 16, 16, 4, double, OF(Vector<double, 4>), MFMA(f64_16x16x4f64))
#endif

#if defined(__gfx90a__) || defined(__gfx942__)
UNIT(FLOAT16, 32, 32, 8, OF(Vector<_Float16, 4>), Floats<16>, MFMA(f32_32x32x8f16))
UNIT(BFLOAT16, 32, 32, 8, OF(Vector<short, 4>), Floats<16>, MFMA(f32_32x32x8bf16_1k))
#endif

#if defined(__gfx90a__)
UNIT(INT8, 32, 32, 8, int, Ints<16>, MFMA(i32_32x32x8i8))
#endif

#if defined(__gfx942__)
UNIT(TFLOAT32, 32, 32, 4, Floats<2>, Floats<16>, MFMA(f32_32x32x4_xf32))
UNIT(INT8, 32, 32, 16, long long, Ints<16>, MFMA(i32_32x32x16_i8))
UNIT(FLOAT8, 32, 32, 16, long long, Floats<16>, MFMA(f32_32x32x16_fp8_fp8))
#endif

#if defined(__gfx950__) /* it has no xf32; the first two zeros of f8f6f4 say e4m3, the rest no scale */
UNIT(FLOAT16, 32, 32, 16, OF(Vector<_Float16, 8>), Floats<16>, MFMA(f32_32x32x16_f16))
UNIT(BFLOAT16, 32, 32, 16, OF(Vector<__bf16, 8>), Floats<16>, MFMA(f32_32x32x16_bf16))
UNIT(INT8, 32, 32, 32, Ints<4>, Ints<16>, MFMA(i32_32x32x32_i8))
UNIT(FLOAT8, 32, 32, 64, Ints<8>, Floats<16>,
     __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(a, b, c, 0, 0, 0, 0, 0, 0))
#endif

#if defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__) ||                        \
    defined(__gfx1103__) || defined(__gfx1150__) || defined(__gfx1151__)
UNIT(FLOAT16, 16, 16, 16, OF(Vector<_Float16, 16>), Floats<8>, WMMA(f32_16x16x16_f16_w32))
UNIT(BFLOAT16, 16, 16, 16, OF(Vector<short, 16>), Floats<8>, WMMA(f32_16x16x16_bf16_w32))
UNIT(INT8, 16, 16, 16, Ints<4>, Ints<8>,
     __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a, true, b, c, false))
#endif

#if defined(__gfx1200__) || defined(__gfx1201__)
UNIT(FLOAT16, 16, 16, 16, OF(Vector<_Float16, 8>), Floats<8>, WMMA(f32_16x16x16_f16_w32_gfx12))
UNIT(BFLOAT16, 16, 16, 16, OF(Vector<short, 8>), Floats<8>, WMMA(f32_16x16x16_bf16_w32_gfx12))
UNIT(FLOAT8, 16, 16, 16, Ints<2>, Floats<8>, WMMA(f32_16x16x16_fp8_fp8_w32_gfx12))
UNIT(INT8, 16, 16, 16, Ints<2>, Ints<8>,
     __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, true, b, c, false))
#endif

template <int TYPE> __device__ __forceinline__ float multiply(int n) {
    typedef typename Unit<TYPE>::Operand Operand;
    typedef typename Unit<TYPE>::Sum Sum;
    Operand a[SIDE], b[SIDE];
    Sum sum[SIDE][SIDE] = {};
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        a[i] = operand<TYPE, Operand>(i);
        b[i] = operand<TYPE, Operand>(SIDE + i);
    }
    for (int repeat = 0; repeat < n; repeat++) {
#pragma unroll
        for (int step = 0; step < BATCH; step++) {
#pragma unroll
            for (int i = 0; i < SIDE; i++) {
#pragma unroll
                for (int j = 0; j < SIDE; j++) {
                    sum[i][j] = Unit<TYPE>::product(a[i], b[j], sum[i][j]);
                }
            }
        }
    }
    float total = 0;
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
#pragma unroll
        for (int j = 0; j < SIDE; j++) {
#pragma unroll
            for (unsigned k = 0; k < sizeof(Sum) / sizeof(sum[i][j][0]); k++) {
                total += static_cast<float>(sum[i][j][k]);
            }
        }
    }
    return total;
}

/* operations: of one block per repeat, as the code that was compiled for this device does. */
template <int TYPE>
__global__ void __launch_bounds__(THREADS) products(double *operations, float *sink, int n) {
    const float result = multiply<TYPE>(n);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *operations = Unit<TYPE>::OPERATIONS * SIDE * SIDE * BATCH * (THREADS / WAVE);
    }
    if (result == 1.2345f) { /* never, but the compiler can't know */
        *sink = result;
    }
}

template <int TYPE> static double measure(const Device &device, char *memory, double least_s) {
    double *operations = reinterpret_cast<double *>(memory);
    float *sink = reinterpret_cast<float *>(memory + sizeof(double));
    int resident = 0;
    GPU(OccupancyMaxActiveBlocksPerMultiprocessor)(&resident, products<TYPE>, THREADS, 0);
    const unsigned blocks = static_cast<unsigned>(resident * device.multiprocessors);
    if (blocks == 0 || GPU(GetLastError)() != GPU(Success)) {
        return 0;
    }
    const double repeats = rate_of(1.0, least_s, [&](int n) {
        products<TYPE><<<blocks, THREADS>>>(operations, sink, n);
    });
    return repeats * blocks * take(operations, 1)[0];
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
            measure<FLOAT32>(device, base, least_s),
        };
        for (int type = 0; type < TYPES; type++) {
            best[type] = now[type] > best[type] ? now[type] : best[type];
        }
    }
    put(rates, best);
}
