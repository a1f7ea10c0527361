/* Bandwidth of shared memory (LDS): every thread reads 16 bytes at a time, without bank conflicts.
 *
 * Loads are volatile: the tile never changes, and a compiler would otherwise read it once.
 */
#include "gpu.h"

typedef unsigned word;

constexpr int THREADS = 512;
constexpr int TURNS = 4;    /* of all threads through the tile */
constexpr int LENGTH = 64;  /* passes through the tile per repeat */
constexpr int QUAD = 4;     /* words that a load reads */
constexpr int TILE = THREADS * TURNS * QUAD; /* words: 32 KiB, which every block may have */

struct Quad {
    word x, y, z, w;
};

#if defined(__HIP__)
typedef word vector __attribute__((ext_vector_type(4)));
__device__ __forceinline__ Quad load(const word *at) {
    const vector v = *reinterpret_cast<const volatile vector *>(at);
    return {v.x, v.y, v.z, v.w};
}
#else
__device__ __forceinline__ Quad load(const word *at) {
    Quad v;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(at))));
    return v;
}
#endif

__global__ void __launch_bounds__(THREADS) passes(word *sink, int n) {
    __shared__ __attribute__((aligned(16))) word tile[TILE];
    for (int i = threadIdx.x; i < TILE; i += THREADS) {
        tile[i] = i;
    }
    __syncthreads();
    const word *mine = tile + QUAD * threadIdx.x;
    Quad sum = {0, 0, 0, 0};
    for (int i = 0; i < n; i++) {
#pragma unroll 8
        for (int j = 0; j < LENGTH; j++) {
#pragma unroll
            for (int turn = 0; turn < TURNS; turn++) {
                const Quad v = load(mine + turn * THREADS * QUAD);
                sum.x += v.x;
                sum.y += v.y;
                sum.z += v.z;
                sum.w += v.w;
            }
        }
    }
    const word total = sum.x ^ sum.y ^ sum.z ^ sum.w;
    if (total == 0x9e3779b9u) { /* hardly ever, but the compiler can't know */
        *sink = total;
    }
}

/* rates: byte/s that all multiprocessors read together, the best of some bursts; [1]. */
extern "C" void solve(double *rates, int bursts, int microseconds) {
    const Device device;
    Memory sink(sizeof(word));
    word *out = static_cast<word *>(sink.base);
    int resident = 1;
    GPU(OccupancyMaxActiveBlocksPerMultiprocessor)(&resident, passes, THREADS, 0);
    const unsigned blocks = static_cast<unsigned>(resident * device.multiprocessors);
    const double bytes = static_cast<double>(sizeof(word)) * TILE * LENGTH * blocks;
    std::vector<double> best(1, 0.0);
    for (int burst = 0; burst < bursts; burst++) {
        const double now = rate_of(bytes, microseconds * 1e-6, [&](int n) {
            passes<<<blocks, THREADS>>>(out, n);
        });
        best[0] = now > best[0] ? now : best[0];
    }
    put(rates, best);
}
