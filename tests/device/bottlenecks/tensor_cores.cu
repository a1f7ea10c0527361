// Compute, tensor cores: Hopper's wgmma on tiles that stay in shared memory, one after the other.
#include <cuda_runtime.h>

constexpr int STEPS = 512;
constexpr int TILE_BYTES = (2 * 64 + 256) * 128;  // A of two groups of four warps, and B

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

__global__ void __launch_bounds__(256) products(const float *x, float *y, int N) {
    extern __shared__ unsigned char shared[];
    unsigned char *tiles = shared + (1024 - (reinterpret_cast<size_t>(shared) & 1023)) % 1024;
    int i = blockIdx.x * 256 + threadIdx.x;
    for (int k = threadIdx.x; k < TILE_BYTES / 4; k += 256) {
        // Two bfloat16 of size 0.5 to 1, from the bits of an input.
        unsigned bits = __float_as_uint(x[(i + k) % N]);
        reinterpret_cast<unsigned *>(tiles)[k] = (bits & 0x807f807fu) | 0x3f003f00u;
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const unsigned long long a = descriptor(tiles + threadIdx.x / 128 * 64 * 128);
    const unsigned long long b = descriptor(tiles + 2 * 64 * 128);
    unsigned result = 0;
    const int n = STEPS;
    LOOP(".f32", "m64n256k16.f32.bf16.bf16", ", 1, 1, 0, 0");
    if (i < N) {
        y[i] = __uint_as_float(result);
    }
}

extern "C" void solve(const float *x, float *y, int N) {
    cudaFuncSetAttribute(products, cudaFuncAttributeMaxDynamicSharedMemorySize, TILE_BYTES + 1024);
    products<<<(N + 255) / 256, 256, TILE_BYTES + 1024>>>(x, y, N);
}
