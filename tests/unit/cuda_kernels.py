"""CUDA kernels and devices for tests of the toolchain."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofsmith.domain.device import Device
from roofsmith.domain.kernel import Candidate, SourceFile, default_build
from roofsmith.errors import MachineError
from roofsmith.toolchains.cuda_toolkit import Toolkit, find_toolkit


def _nvcc() -> Toolkit | None:
    """Where the toolchain finds it: on PATH, beside CUDA, or in a wheel."""
    try:
        return find_toolkit()
    except MachineError:
        return None


TOOLKIT = _nvcc()
"""What CUDA kernels are built with; None without."""
needs_nvcc = pytest.mark.skipif(TOOLKIT is None, reason="nvcc is not installed")


def nvcc(*arguments: str | Path) -> list[str | Path]:
    """A command line of that compiler."""
    assert TOOLKIT is not None
    return [TOOLKIT.compiler.path, *(f"-I{folder}" for folder in TOOLKIT.includes), *arguments]


H100 = Device(
    kind="nvidia",
    name="NVIDIA H100",
    cores=132,
    arch="sm_90",
    limits={"max_shared_bytes_per_block": 232_448},
)

SCALE = """\
template <int BLOCK>
__global__ void __launch_bounds__(BLOCK) scale(const float *x, float *y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n)
        y[i] = 2.0f * x[i];
}
extern "C" void solve(const float *x, float *y, int n) {
    scale<128><<<(n + 127) / 128, 128>>>(x, y, n);
    cudaDeviceSynchronize();
}
"""

WARP_SPECIALIZED = """\
#include <stdint.h>
typedef uint16_t half;  // whose header takes as long as the rest
__device__ uint64_t descriptor(const half *tile) {
    return uint64_t((uint32_t)__cvta_generic_to_shared(tile) & 0x3FFFF) >> 4;
}
__global__ void __launch_bounds__(256) product(const half *a, const half *b, float *c) {
    __shared__ __align__(128) half tiles[2][64 * 16];
    for (int i = threadIdx.x; i < 64 * 16; i += 256) {
        tiles[0][i] = a[i];
        tiles[1][i] = b[i % 128];
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float d[4] = {};
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
            "{%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "l"(descriptor(tiles[0])), "l"(descriptor(tiles[1])));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        for (int i = 0; i < 4; i++)
            c[(threadIdx.x - 128) * 4 + i] = d[i];
    }
}
extern "C" void solve(const half *a, const half *b, float *c, int n) {
    product<<<1, 256>>>(a, b, c);
}
"""
"""wgmma and setmaxnreg exist for sm_90a only."""

SPILLING = """\
__global__ void polynomials(const float *x, float *y, int n) {
    float held[40];
    for (int i = 0; i < 40; i++)
        held[i] = x[i * n + threadIdx.x];
    for (int round = 0; round < n; round++)
        for (int i = 0; i < 40; i++)
            held[i] = held[i] * held[(i + 13) % 40] + 1.0f;
    for (int i = 0; i < 40; i++)
        y[i * n + threadIdx.x] = held[i];
}
extern "C" void solve(const float *x, float *y, int n) { polynomials<<<1, n>>>(x, y, n); }
"""

MUCH_SHARED = """\
__global__ void reversed(float *y) {
    __shared__ float tile[FLOATS];
    tile[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[FLOATS - 1 - threadIdx.x];
}
extern "C" void solve(float *y, int n) { reversed<<<1, 32>>>(y); }
"""
"""Takes 4 * FLOATS bytes of static shared memory."""


def cuda(text: str = SCALE, *flags: str, others: tuple[tuple[str, str], ...] = ()) -> Candidate:
    """A candidate with the default flags and further ones."""
    build = default_build("cuda")
    return Candidate(
        language="cuda",
        sources=tuple(SourceFile(path=p, text=t) for p, t in (("kernel.cu", text), *others)),
        build=build.model_copy(update={"flags": (*build.flags, *flags)}),
    )
