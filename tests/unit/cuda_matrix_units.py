"""What CUDA kernels have of matrix units and copies, on the host: every lane gives what it has."""

from __future__ import annotations

from roofsmith.proposers.schedules.cuda.structs import kernel_text

PRELUDE = """
#include <type_traits>
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__
const int cudaDevAttrMultiProcessorCount = 0, cudaFuncAttributeMaxDynamicSharedMemorySize = 1;
static void cudaDeviceGetAttribute(int* to, int, int) { *to = 4; }
template <class K> void cudaFuncSetAttribute(K, int, int) {}
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static uint32_t __float_as_uint(float x) { uint32_t y; memcpy(&y, &x, 4); return y; }
static float __uint_as_float(uint32_t x) { float y; memcpy(&y, &x, 4); return y; }
alignas(1024) static unsigned char memory[232448];
// What a lane of this warp has given, to be read by all until the next exchange.
struct Given { uint32_t a[4], b[4]; const void* at; };
static Given given[1024];
static Given* exchange(Given mine) {
    wait(warps[current / 32]);
    given[current] = mine;
    wait(warps[current / 32]);
    return given + current / 32 * 32;
}
"""
COPIES = """
static void copy_16_bytes(void* to, const void* from, bool inside) {
    if ((uintptr_t)to % 16 || (inside && (uintptr_t)from % 16)) abort();
    inside ? memcpy(to, from, 16) : memset(to, 0, 16);
}
static void copy_4_bytes(void* to, const void* from, bool inside) {
    inside ? memcpy(to, from, 4) : memset(to, 0, 4);
}
static void end_copies() {}
template <int COUNT> void wait_for_copies() {}
"""
MMA_SINGLE = """
static float tf32(uint32_t bits) { return __uint_as_float(bits & 0xffffe000u); }
static void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                     const float (&c)[4]) {
    Given* all = exchange({{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
    int lane = current % 32;
    for (int q = 0; q < 4; q++) {
        int r = lane / 4 + q / 2 * 8, n = lane % 4 * 2 + q % 2;
        float sum = c[q];
        for (int k = 0; k < 8; k++) {
            uint32_t left = all[r % 8 * 4 + k % 4].a[r / 8 + k / 4 * 2];
            sum += tf32(left) * tf32(all[n * 4 + k % 4].b[k / 4]);
        }
        d[q] = sum;
    }
    exchange({});
}
"""
MMA_HALF = """
template <class T> float half_of(uint32_t pair, int which) {
    T two[2];
    memcpy(two, &pair, 4);
    return (float)two[which];
}
template <bool TRANSPOSED, class T> void load_matrices(uint32_t (&to)[4], const T* from) {
    if ((uintptr_t)from % 16) abort();
    Given mine = {};
    mine.at = from;
    Given* all = exchange(mine);
    int lane = current % 32;
    for (int i = 0; i < 4; i++) {
        T two[2];
        for (int e = 0; e < 2; e++) {
            int r = lane / 4, c = lane % 4 * 2 + e;
            const T* row = (const T*)all[i * 8 + (TRANSPOSED ? c : r)].at;
            two[e] = row[TRANSPOSED ? r : c];
        }
        memcpy(&to[i], two, 4);
    }
    exchange({});
}
template <class T>
void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t low, uint32_t high) {
    Given* all = exchange({{a[0], a[1], a[2], a[3]}, {low, high}});
    int lane = current % 32;
    for (int q = 0; q < 4; q++) {
        int r = lane / 4 + q / 2 * 8, n = lane % 4 * 2 + q % 2;
        for (int k = 0; k < 16; k++) {
            float left = half_of<T>(all[r % 8 * 4 + k % 8 / 2].a[r / 8 + k / 8 * 2], k % 2);
            c[q] += left * half_of<T>(all[n * 4 + k % 8 / 2].b[k / 8], k % 2);
        }
    }
    exchange({});
}
"""
PRIMITIVES = {"copies": COPIES, "mma_single": MMA_SINGLE, "mma_half": MMA_HALF}


def without_units(text: str) -> str:
    """A file with what only a GPU has replaced."""
    for name, code in PRIMITIVES.items():
        text = text.replace(kernel_text(name), code)
    return text.replace("extern __shared__ __align__(16) unsigned char memory[];", "")
