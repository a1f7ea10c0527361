"""What kernels call: vectors in memory, folds within a warp and a block, operations of C++."""

from __future__ import annotations

from collections.abc import Mapping

HELPERS: Mapping[str, str] = {
    "Vector": "// Neighbours in memory, which are loaded and stored at once.\n"
    "template <typename T, int N>\n"
    "struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vector {\n    T at[N];\n};",
    "load": "template <int N, typename T>\n"
    "__device__ Vector<T, N> load(const T *from) {\n"
    "    Vector<T, N> values;\n"
    "    constexpr int SIZE = sizeof(values);\n"
    "    if constexpr (SIZE % 16 == 0) {\n"
    "        #pragma unroll\n"
    "        for (int at = 0; at < SIZE / 16; at++) {\n"
    "            reinterpret_cast<int4 *>(&values)[at] = "
    "reinterpret_cast<const int4 *>(from)[at];\n"
    "        }\n"
    "    } else {\n"
    "        values = *reinterpret_cast<const Vector<T, N> *>(from);\n"
    "    }\n"
    "    return values;\n}",
    "store": "// By an intrinsic, since a plain store of a vector may be taken apart.\n"
    "template <int N, typename T>\n"
    "__device__ void store(T *to, const Vector<T, N> &values) {\n"
    "    constexpr int SIZE = sizeof(values);\n"
    "    if constexpr (SIZE % 16 == 0) {\n"
    "        #pragma unroll\n"
    "        for (int at = 0; at < SIZE / 16; at++) {\n"
    "            __stcg(reinterpret_cast<int4 *>(to) + at, "
    "reinterpret_cast<const int4 *>(&values)[at]);\n"
    "        }\n"
    "    } else if constexpr (SIZE == 8) {\n"
    "        __stcg(reinterpret_cast<int2 *>(to), *reinterpret_cast<const int2 *>(&values));\n"
    "    } else {\n"
    "        *reinterpret_cast<Vector<T, N> *>(to) = values;\n"
    "    }\n}",
    "is_aligned": "bool is_aligned(const void *array) {\n"
    "    return (uintptr_t)array % 16 == 0;\n}",
    "tiles": "unsigned tiles(ptrdiff_t size, ptrdiff_t tile) {\n"
    "    return (unsigned)((size + tile - 1) / tile);\n}",
    "block_for": "// A block as wide as what lies in one piece, and as high as threads suffice.\n"
    "dim3 block_for(ptrdiff_t width, int threads) {\n"
    "    int x = 1;\n"
    "    while (x < threads && x < width) x *= 2;\n"
    "    return dim3(x, threads / x);\n}",
    "column_block": "// Up to 32 threads side by side, or more to a column.\n"
    "dim3 column_block(ptrdiff_t width) {\n"
    "    int x = 1;\n"
    "    while (x < 32 && x < width) x *= 2;\n"
    "    return dim3(x, 32 * DEEP / x);\n}",
    "squared": "template <typename T>\n__device__ T squared(T a) {\n    return a * a;\n}",
    "cubed": "template <typename T>\n__device__ T cubed(T a) {\n    return a * a * a;\n}",
    "larger": "// The larger; NaN where one is.\n"
    "__device__ {0} larger_{0}({0} a, {0} b) {{\n    return b > a || b != b ? b : a;\n}}",
    "smaller": "// The smaller; NaN where one is.\n"
    "__device__ {0} smaller_{0}({0} a, {0} b) {{\n    return b < a || b != b ? b : a;\n}}",
    "floor_quotient": "__device__ {0} floor_quotient_{0}({0} a, {0} b) {{\n"
    "    return ({0})floor(a / b);\n}}",
    "floor_remainder": "// Of the divisor's sign.\n"
    "__device__ {0} floor_remainder_{0}({0} a, {0} b) {{\n"
    "    const {0} rest = ({0})fmod(a, b);\n"
    "    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;\n}}",
    "whole_quotient": "// Rounded down.\n"
    "__device__ int64_t whole_quotient(int64_t a, int64_t b) {\n"
    "    return a / b - (a % b != 0 && (a < 0) != (b < 0));\n}",
    "whole_remainder": "// Of the divisor's sign.\n"
    "__device__ int64_t whole_remainder(int64_t a, int64_t b) {\n"
    "    const int64_t rest = a % b;\n"
    "    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;\n}",
    "whole_power": "__device__ int64_t whole_power(int64_t base, int64_t exponent) {\n"
    "    int64_t power = 1;\n"
    "    for (; exponent > 0; exponent--) power *= base;\n    return power;\n}",
    "work_space": "// Work space stays from call to call; it holds no result.\n"
    "template <typename T>\n"
    "T *work_space(int slot, size_t count) {\n"
    "    static struct {\n        void *memory;\n        size_t size;\n    } slots[SLOTS];\n"
    "    if (slots[slot].size < count * sizeof(T)) {\n"
    "        cudaFree(slots[slot].memory);\n"
    "        cudaMalloc(&slots[slot].memory, count * sizeof(T));\n"
    "        slots[slot].size = count * sizeof(T);\n    }\n"
    "    return (T *)slots[slot].memory;\n}",
}  # fmt: skip
_NEEDS = {"load": ("Vector",), "store": ("Vector",)}


def helper_codes(used: set[str]) -> list[str]:
    """Definitions of what is called, those that others need first."""
    wanted = {need for name in used for need in (name, *_NEEDS.get(name, ()))}
    codes = []
    kinds = ("float", "double")
    for name, code in HELPERS.items():
        if name in wanted:
            codes.append(code)
        codes += [code.format(kind) for kind in kinds if f"{name}_{kind}" in wanted]
    return codes
