/* Bandwidth of the access patterns read, copy and triad, at several working-set sizes.
 *
 * read:  one stream in;           copy:  c = a;           triad: c = a + x * b.
 * Each is measured in two ways. "persistent": as many blocks as fit at a time walk over the arrays
 * again and again, so that launching doesn't count where a pass takes a few microseconds. "tiled":
 * a block for every tile and a launch for every pass, which memory likes better.
 * Loads go past L1: data that is used once isn't there either.
 */
#include "gpu.h"

enum Pattern { READ, COPY, TRIAD, PATTERNS };
enum Style { PERSISTENT, TILED, STYLES };

static const int arrays_of[PATTERNS] = {1, 2, 3};

constexpr int THREADS = 512;
constexpr int UNROLL = 4;
constexpr size_t TILE = THREADS * UNROLL; /* float4 of one block, at a time */

__device__ __forceinline__ float4 load(const float4 *from) {
    float4 value;
#if defined(__HIP__)
    const float *parts = reinterpret_cast<const float *>(from);
    value.x = __builtin_nontemporal_load(parts + 0);
    value.y = __builtin_nontemporal_load(parts + 1);
    value.z = __builtin_nontemporal_load(parts + 2);
    value.w = __builtin_nontemporal_load(parts + 3);
#else
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "l"(from));
#endif
    return value;
}

__device__ __forceinline__ float4 fused(float4 a, float x, float4 b) {
    return make_float4(a.x + x * b.x, a.y + x * b.y, a.z + x * b.z, a.w + x * b.w);
}

/* One tile: UNROLL loads of each array in flight per thread. */
template <int PATTERN>
__device__ __forceinline__ float tile(const float4 *a, const float4 *b, float4 *c, size_t first,
                                      float x) {
    float4 u[UNROLL], v[UNROLL];
    float sum = 0;
#pragma unroll
    for (int k = 0; k < UNROLL; k++) {
        u[k] = load(a + first + k * THREADS);
        if (PATTERN == TRIAD) {
            v[k] = load(b + first + k * THREADS);
        }
    }
#pragma unroll
    for (int k = 0; k < UNROLL; k++) {
        if (PATTERN == READ) {
            sum += u[k].x + u[k].y + u[k].z + u[k].w;
        } else {
            c[first + k * THREADS] = PATTERN == COPY ? u[k] : fused(u[k], x, v[k]);
        }
    }
    return sum;
}

template <int PATTERN>
__global__ void __launch_bounds__(THREADS)
    walk(const float4 *a, const float4 *b, float4 *c, size_t tiles, int passes, float x) {
    float sum = 0;
    for (int pass = 0; pass < passes; pass++) {
        for (size_t at = blockIdx.x; at < tiles; at += gridDim.x) {
            sum += tile<PATTERN>(a, b, c, at * TILE + threadIdx.x, x);
        }
    }
    if (PATTERN == READ && sum == 1.2345f) { /* never: arrays hold zeros; but who knows that */
        c[0].x = sum;
    }
}

template <int PATTERN>
static double measure(const Device &device, char *base, size_t set_bytes, int style,
                      double least_s) {
    const size_t tile_bytes = TILE * sizeof(float4);
    const size_t tiles = set_bytes / arrays_of[PATTERN] / tile_bytes;
    if (tiles == 0) {
        return 0;
    }
    const float4 *a = reinterpret_cast<const float4 *>(base);
    const float4 *b = a + (PATTERN == TRIAD ? tiles * TILE : 0);
    float4 *c = reinterpret_cast<float4 *>(base) + (arrays_of[PATTERN] - 1) * tiles * TILE;
    int resident = 1;
    GPU(OccupancyMaxActiveBlocksPerMultiprocessor)(&resident, walk<PATTERN>, THREADS, 0);
    const size_t fit = static_cast<size_t>(resident) * device.multiprocessors;
    const double bytes = static_cast<double>(tiles) * tile_bytes * arrays_of[PATTERN];
    return rate_of(bytes, least_s, [&](int passes) {
        if (style == PERSISTENT) {
            walk<PATTERN><<<static_cast<unsigned>(fit < tiles ? fit : tiles), THREADS>>>(
                a, b, c, tiles, passes, 0.5f);
            return;
        }
        for (int pass = 0; pass < passes; pass++) {
            walk<PATTERN><<<static_cast<unsigned>(tiles), THREADS>>>(a, b, c, tiles, 1, 0.5f);
        }
    });
}

/* rates: byte/s, [sets][PATTERNS][STYLES]; set_kib: all arrays of a working set together. */
extern "C" void solve(double *rates, const int *set_kib, int sets, int microseconds) {
    const Device device;
    const std::vector<int> sizes = take(set_kib, sets);
    int largest = 0;
    for (int size : sizes) {
        largest = size > largest ? size : largest;
    }
    Memory memory(static_cast<size_t>(largest) << 10);
    std::vector<double> found(static_cast<size_t>(sets) * PATTERNS * STYLES, 0.0);
    if (memory.base != nullptr) {
        char *base = static_cast<char *>(memory.base);
        GPU(Memset)(base, 0, static_cast<size_t>(largest) << 10);
        const double least_s = microseconds * 1e-6;
        for (int set = 0; set < sets; set++) {
            const size_t size = static_cast<size_t>(sizes[set]) << 10;
            for (int style = 0; style < STYLES; style++) {
                double *row = &found[static_cast<size_t>(set) * PATTERNS * STYLES + style];
                row[READ * STYLES] = measure<READ>(device, base, size, style, least_s);
                row[COPY * STYLES] = measure<COPY>(device, base, size, style, least_s);
                row[TRIAD * STYLES] = measure<TRIAD>(device, base, size, style, least_s);
            }
        }
    }
    put(rates, found);
}
