/* Peak of multiply-adds outside the matrix units: independent chains in registers.
 *
 * A multiply-add counts as two operations. Half-precision types go in pairs, as the hardware does
 * them. Values go to the fixed point of v * v + TERM, so nothing overflows however long it runs;
 * integers wrap around.
 *
 * One register is all that a step reads. Compute capabilities 8.0 and 9.0 have two pipes for pairs,
 * HFMA2 and HFMA2.MMA, and ptxas (12.9 and 13.0) takes both in turn only then; with a second
 * register it keeps to the first, and to half of the rate.
 */
#include "gpu.h"

/* CDNA has no multiply-add of bfloat16 outside its matrix cores, and does one of int32 more slowly
 * than an addition: no ceiling of the type. */
#if defined(__HIP__)
#include <hip/hip_fp16.h>
typedef float single __attribute__((ext_vector_type(2))); /* v_pk_fma_f32: twice the rate */
constexpr int SINGLES = 2;
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define HAS_BFLOAT16 1
#define HAS_INT32 1
typedef float single;
constexpr int SINGLES = 1;
#endif

enum Type { FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT32, TYPES };

constexpr int THREADS = 512;
constexpr int CHAINS = 8;   /* of every thread: enough to hide the latency at any occupancy */
constexpr int LENGTH = 512; /* multiply-adds of a chain per repeat */
constexpr float TERM = 0.125f;

/* Contracted to one multiply-add, as both compilers do unless told otherwise. */
__device__ __forceinline__ single fuse(single a, single b, single c) { return a * b + c; }
__device__ __forceinline__ double fuse(double a, double b, double c) { return fma(a, b, c); }
__device__ __forceinline__ __half2 fuse(__half2 a, __half2 b, __half2 c) {
    return __hfma2(a, b, c);
}

__device__ __forceinline__ void set(single &v, float x) { v = x; }
__device__ __forceinline__ void set(double &v, float x) { v = x; }
__device__ __forceinline__ void set(__half2 &v, float x) { v = __float2half2_rn(x); }

#if defined(__HIP__)
__device__ __forceinline__ float first(single v) { return v.x; }
#else
__device__ __forceinline__ float first(single v) { return v; }
#endif
__device__ __forceinline__ float first(double v) { return static_cast<float>(v); }
__device__ __forceinline__ float first(__half2 v) { return __low2float(v); }
#if defined(HAS_BFLOAT16)
__device__ __forceinline__ __nv_bfloat162 fuse(__nv_bfloat162 a, __nv_bfloat162 b,
                                               __nv_bfloat162 c) {
#if __CUDA_ARCH__ >= 800
    return __hfma2(a, b, c);
#else
    return a; /* never asked for: see solve() */
#endif
}
__device__ __forceinline__ void set(__nv_bfloat162 &v, float x) { v = __float2bfloat162_rn(x); }
__device__ __forceinline__ float first(__nv_bfloat162 v) { return __low2float(v); }
#endif
#if defined(HAS_INT32) /* unsigned, since those may wrap; odd, since even ones would end in zeros */
__device__ __forceinline__ unsigned fuse(unsigned a, unsigned b, unsigned c) { return a * b + c; }
__device__ __forceinline__ void set(unsigned &v, float x) { v = __float_as_uint(x) | 1; }
__device__ __forceinline__ float first(unsigned v) { return static_cast<float>(v); }
#endif

template <class T>
__global__ void __launch_bounds__(THREADS) chains(float *sink, int n) {
    T value[CHAINS], term;
    set(term, TERM);
#pragma unroll
    for (int k = 0; k < CHAINS; k++) {
        set(value[k], 0.001f * (threadIdx.x + k)); /* below 0.85, from where it would grow */
    }
    for (int i = 0; i < n; i++) {
#pragma unroll 8
        for (int j = 0; j < LENGTH; j++) {
#pragma unroll
            for (int k = 0; k < CHAINS; k++) {
                value[k] = fuse(value[k], value[k], term);
            }
        }
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < CHAINS; k++) {
        sum += first(value[k]);
    }
    if (sum == 1.2345f) { /* never, but the compiler can't know */
        *sink = sum;
    }
}

template <class T>
static double measure(const Device &device, float *sink, int lanes, double least_s) {
    int resident = 1;
    GPU(OccupancyMaxActiveBlocksPerMultiprocessor)(&resident, chains<T>, THREADS, 0);
    const unsigned blocks = static_cast<unsigned>(resident * device.multiprocessors);
    const double flops = 2.0 * lanes * LENGTH * CHAINS * THREADS * blocks;
    return rate_of(flops, least_s, [&](int n) {
        chains<T><<<blocks, THREADS>>>(sink, n);
    });
}

/* rates: FLOP/s (operations per second for int32), the best of some bursts; [TYPES]. */
extern "C" void solve(double *rates, int bursts, int microseconds) {
    const Device device;
    Memory sink(sizeof(float));
    std::vector<double> best(TYPES, 0.0);
    float *out = static_cast<float *>(sink.base);
    const double least_s = microseconds * 1e-6;
    for (int burst = 0; burst < bursts; burst++) {
        const double now[TYPES] = {
            measure<single>(device, out, SINGLES, least_s),
            measure<double>(device, out, 1, least_s),
            measure<__half2>(device, out, 2, least_s),
#if defined(HAS_BFLOAT16)
            device.major >= 8 ? measure<__nv_bfloat162>(device, out, 2, least_s) : 0.0,
#endif
#if defined(HAS_INT32)
            measure<unsigned>(device, out, 1, least_s),
#endif
        };
        for (int type = 0; type < TYPES; type++) {
            best[type] = now[type] > best[type] ? now[type] : best[type];
        }
    }
    put(rates, best);
}
