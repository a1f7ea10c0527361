"""What CUDA kernels have of matrix units and copies, on the host: every lane gives what it has."""

from __future__ import annotations

from roofsmith.proposers.schedules.cuda.structs import kernel_text

PRELUDE = """
#include <type_traits>
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__
#define __cluster_dims__(blocks)
const int cudaDevAttrMultiProcessorCount = 0, cudaFuncAttributeMaxDynamicSharedMemorySize = 1;
static void cudaDeviceGetAttribute(int* to, int, int) { *to = 4; }
template <class K> void cudaFuncSetAttribute(K, int, int) {}
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static uint32_t __float_as_uint(float x) { uint32_t y; memcpy(&y, &x, 4); return y; }
static float __uint_as_float(uint32_t x) { float y; memcpy(&y, &x, 4); return y; }
alignas(1024) static unsigned char memory[232448], boxes[232448];
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
WGMMA = """
struct CUtensorMap {
    const unsigned char* start;
    uint64_t size[3], stride[2];
    uint32_t box[3];
};
using cuuint64_t = uint64_t;
using cuuint32_t = uint32_t;
enum {
    CUDA_SUCCESS, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
};
static int cuTensorMapEncodeTiled(CUtensorMap* map, int, int, void* start, cuuint64_t* size,
                                  cuuint64_t* stride, cuuint32_t* box, cuuint32_t*, int, int, int,
                                  int) {
    map->start = (const unsigned char*)start;
    for (int i = 0; i < 3; i++) { map->size[i] = size[i]; map->box[i] = box[i]; }
    for (int i = 0; i < 2; i++) map->stride[i] = stride[i];
    return ((uintptr_t)start | stride[0] | stride[1]) % 16 != 0;
}
// A barrier's turn, arrivals that are to come and have come, and bytes that are under way.
struct Bar { int8_t turn; uint8_t all, come; int bytes; };
static void turn_of(Bar& bar) {
    if (bar.come == bar.all && bar.bytes == 0) { bar.turn ^= 1; bar.come = 0; }
}
static uint32_t shared_address(const void* at) { return (const unsigned char*)at - boxes; }
static void begin_barrier(uint64_t* barrier, int arrivals) {
    *(Bar*)barrier = Bar{0, (uint8_t)arrivals, 0, 0};
}
static void end_of_beginning() {}
static void expect_bytes(uint64_t* barrier, int bytes) {
    Bar& bar = *(Bar*)barrier;
    bar.bytes += bytes;
    bar.come++;
    turn_of(bar);
}
static void wait_at(uint64_t* barrier, int parity) {
    while (((Bar*)barrier)->turn == parity) give_way();
}
static void arrive_at(uint64_t* barrier, int) {
    ((Bar*)barrier)->come++;
    turn_of(*(Bar*)barrier);
}
static void cluster_sync() { wait(block); }
static void copy_box(unsigned char* to, const CUtensorMap& map, uint64_t* barrier, int x, int y,
                     int z, int blocks) {
    if (blocks != 1 || (to - boxes) % 1024) abort();
    for (uint32_t r = 0; r < map.box[1]; r++) {
        for (uint32_t c = 0; c < 64; c++) {
            uint16_t value = 0;
            if (x + c < map.size[0] && y + r < map.size[1] && (uint64_t)z < map.size[2]) {
                uint64_t at = z * map.stride[1] + (y + r) * map.stride[0] + (x + c) * 2;
                memcpy(&value, map.start + at, 2);
            }
            memcpy(to + r * 128 + ((c / 8) ^ (r % 8)) * 16 + c % 8 * 2, &value, 2);
        }
    }
    ((Bar*)barrier)->bytes -= map.box[1] * 128;
    turn_of(*(Bar*)barrier);
}
static void begin_products() {}
static float copied(float sum) { return sum; }
static void end_products() {}
template <int COUNT> void wait_for_products() {}
static uint64_t descriptor(uint32_t address, int between_boxes) {
    return (uint64_t)between_boxes << 32 | address;
}
template <class T> float boxed(uint64_t matrix, bool along, int at, int k) {
    uint32_t address = (uint32_t)matrix;
    address += along ? at * 128 + k * 2 : at / 64 * (matrix >> 32) + k * 128 + at % 64 * 2;
    address ^= (address >> 7 & 7) << 4;
    T value;
    memcpy(&value, boxes + address, 2);
    return (float)value;
}
template <class T, int N, bool A_ALONG, bool B_ALONG>
void multiply_boxes(float (&c)[N / 2], uint64_t a, uint64_t b, int keep) {
    int lane = current % 32, warp = current / 32 % 4;
    for (int i = 0; i < N / 2; i++) {
        int r = warp * 16 + lane / 4 + i % 4 / 2 * 8, n = i / 4 * 8 + lane % 4 * 2 + i % 2;
        c[i] = keep ? c[i] : 0.0f;
        for (int k = 0; k < 16; k++) {
            c[i] += boxed<T>(a, A_ALONG, r, k) * boxed<T>(b, B_ALONG, n, k);
        }
    }
}
"""
PRIMITIVES = {"copies": COPIES, "mma_single": MMA_SINGLE, "mma_half": MMA_HALF}


def without_units(text: str) -> str:
    """A file with what only a GPU has replaced."""
    for name, code in PRIMITIVES.items():
        text = text.replace(kernel_text(name), code)
    first, last = "__device__ uint32_t shared_address(", "// Tile `index`, GROUP clusters"
    if first in text:
        text = text[: text.index(first)] + WGMMA + text[text.index(last) :]
        text = text.replace("HOPPER_CLUSTER = 2;", "HOPPER_CLUSTER = 1;")  # blocks run in turn
        text = text.replace("extern __shared__ __align__(1024) unsigned char boxes[];", "")
    return text.replace("extern __shared__ __align__(16) unsigned char memory[];", "")
