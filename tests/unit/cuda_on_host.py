"""CUDA files run on the host: blocks one after the other, their threads as fibers.

For small kernels of tests: launches, barriers, shuffles, atomics, vectors and shared arrays of
fixed size.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cuda_matrix_units import PRELUDE, without_units

SHIM = """
#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <algorithm>
#include <functional>
#include <vector>
using std::max; using std::min;
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) int2 { int x, y; };
template <typename T> static void __stcg(T* to, T value) { *to = value; }
struct __half {
    _Float16 value;
    __half() = default;
    __half(float from) : value((_Float16)from) {}
    operator float() const { return (float)value; }
};
struct __nv_bfloat16 {
    uint16_t bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float from) {
        uint32_t whole;
        memcpy(&whole, &from, 4);
        bits = from != from ? 0x7fff : (whole + 0x7fff + (whole >> 16 & 1)) >> 16;
    }
    operator float() const {
        uint32_t whole = (uint32_t)bits << 16;
        float value;
        memcpy(&value, &whole, 4);
        return value;
    }
};
static dim3 gridDim, blockDim, blockIdx, threadIdx;
struct Barrier { int members = 0, arrived = 0, turn = 0; };
static Barrier block, warps[32];
struct Fiber { ucontext_t start; jmp_buf at; bool begun = false, done = false; };
static Fiber fibers[1024];
static std::vector<std::vector<char>> stacks(1024, std::vector<char>(1 << 16));
struct Cell { alignas(16) char bytes[16]; };
static Cell lanes[1024];
static jmp_buf scheduler;
static int current;
static __attribute__((noinline)) void give_way() {
    if (!_setjmp(fibers[current].at)) _longjmp(scheduler, 1);
}
static std::function<void()> work;
static void release(Barrier& b) {
    if (b.members && b.arrived == b.members) { b.arrived = 0; b.turn++; }
}
static void wait(Barrier& b) {
    int turn = b.turn;
    b.arrived++;
    release(b);
    while (b.turn == turn) give_way();
}
static void __syncthreads() { wait(block); }
static void __syncwarp(unsigned = 0) { wait(warps[current / 32]); }
template <typename T> T exchanged(T value, int from) {
    int me = current;
    memcpy(lanes[me].bytes, &value, sizeof(T));
    wait(warps[me / 32]);
    T other;
    memcpy(&other, lanes[from].bytes, sizeof(T));
    wait(warps[me / 32]);
    return other;
}
template <typename T> T __shfl_xor_sync(unsigned, T value, int mask, int = 32) {
    return exchanged(value, current ^ mask);
}
template <typename T> T __shfl_up_sync(unsigned, T value, int by, int width = 32) {
    return exchanged(value, current % width >= by ? current - by : current);
}
template <typename T> T __shfl_down_sync(unsigned, T value, int by, int width = 32) {
    return exchanged(value, current % width + by < width ? current + by : current);
}
template <typename T> T __shfl_sync(unsigned, T value, int from, int width = 32) {
    return exchanged(value, current / width * width + from % width);
}
template <typename T> T __ldg(const T* from) { return *from; }
template <typename T> T atomicAdd(T* to, T value) {
    T old = *to;
    *to = old + value;
    return old;
}
template <typename T> T atomicMax(T* to, T value) {
    T old = *to;
    *to = max(old, value);
    return old;
}
template <typename T> T atomicMin(T* to, T value) {
    T old = *to;
    *to = min(old, value);
    return old;
}
template <typename T> T atomicCAS(T* to, T seen, T value) {
    T old = *to;
    if (old == seen) *to = value;
    return old;
}
static int __float_as_int(float x) { int y; memcpy(&y, &x, 4); return y; }
static float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
template <typename T> static int cudaMalloc(T** memory, size_t size) {
    *memory = (T*)malloc(size);
    memset((void*)*memory, 0xff, size);
    return 0;
}
static int cudaFree(void* memory) { free(memory); return 0; }
static int cudaMemset(void* memory, int byte, size_t size) { memset(memory, byte, size); return 0; }
static double rsqrt(double x) { return 1.0 / sqrt(x); }
static float rsqrtf(float x) { return 1.0f / sqrtf(x); }
#define __expf expf
#define __fdividef(a, b) ((a) / (b))
static void cudaDeviceSynchronize() {}
static void run_thread() {
    for (;;) {  // once for each block: to begin a fiber takes system calls, to go on with it none
        work();
        fibers[current].done = true;
        for (Barrier* b : {&block, &warps[current / 32]}) { b->members--; release(*b); }
        give_way();
    }
}
static __attribute__((noinline)) void go_on(Fiber& fiber) {
    if (_setjmp(scheduler)) return;
    if (fiber.begun) _longjmp(fiber.at, 1);
    fiber.begun = true;
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = stacks[current].data();
    fiber.start.uc_stack.ss_size = stacks[current].size();
    makecontext(&fiber.start, run_thread, 0);
    setcontext(&fiber.start);
}
static void launch(dim3 grid, dim3 threads, std::function<void()> kernel) {
    int count = threads.x * threads.y * threads.z;
    gridDim = grid; blockDim = threads; work = kernel;
    for (unsigned b = 0; b < grid.x * grid.y; b++) {
        block = Barrier{count};
        for (int w = 0; w < 32; w++) warps[w] = Barrier{max(0, min(32, count - 32 * w))};
        for (int t = 0; t < count; t++) fibers[t].done = false;
        for (int left = count; left; ) {
            left = 0;
            for (current = 0; current < count; current++) {
                if (fibers[current].done) continue;
                left++;
                blockIdx = dim3(b % grid.x, b / grid.x);
                threadIdx = dim3(current % threads.x, current / threads.x);
                go_on(fibers[current]);
            }
        }
    }
}
"""
_WORDS = (
    r"__global__|__device__|__forceinline__|__launch_bounds__\([^)]*\)|__restrict__|"
    r"#include <[^>]*>"
)


def compile_on_host(texts: Mapping[str, str], folder: Path) -> ctypes.CDLL:
    """A library with every file's `solve`, called `solve_` and the file's name."""
    parts = [SHIM, PRELUDE]
    for name, text in texts.items():
        host = re.sub(_WORDS, "", without_units(text)).replace("__shared__", "static")
        host = re.sub(r"(\w+(?:<[^<>]*>)?)<<<(.*?)>>>\((.*?)\);", _launch, host, flags=re.DOTALL)
        host = host.replace("void solve(", f"void solve_{name}(")
        parts.append(f"namespace n_{name} {{\n{host}\n}}\n")
    source, library = folder / "all.cpp", folder / "all.so"
    source.write_text("".join(parts))
    # What checks jumps takes another fiber's stack for one that was left.
    flags = ("-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-U_FORTIFY_SOURCE")
    command = ["g++", *flags, str(source), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    return ctypes.CDLL(str(library))


def _launch(found: re.Match[str]) -> str:
    kernel, how, given = found.groups()
    depth, commas = 0, list[int]()
    for place, letter in enumerate(how):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            commas.append(place)
    grid, block = how[: commas[0]], how[commas[0] + 1 : (*commas[1:], len(how))[0]]
    return f"launch({grid}, {block}, [=] {{ {kernel}({given}); }});"
