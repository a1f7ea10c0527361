"""Two HIP kernels in one source: run by a stand-in for hipcc, and compiled by clang as HIP.

The stand-in (see `test_hip_toolchain.py`) runs a kernel's threads on the host, one by one: who runs
what. Clang is the compiler that hipcc calls: both halves of a source, as it reads HIP, down to the
assembly of an AMD GPU. None of it has run on one.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from test_hip_toolchain import MI300X, RUNTIME, STAND_IN
from test_merging import CUDA, dispatch, factor, merged
from test_ptxas import REMARKS

from roofsmith.domain.kernel import Candidate, SourceFile, default_build
from roofsmith.toolchains import HipToolchain
from roofsmith.toolchains.signature import read_signature

needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
needs_clang = pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")

HIP = CUDA.replace("cuda_runtime.h", "hip/hip_runtime.h")
LAUNCHED = HIP.replace(
    "scale<4><<<(n + THREADS - 1) / THREADS, THREADS>>>(x, y, n);",
    "dim3 blocks((n + THREADS - 1) / THREADS);\n"
    "    hipLaunchKernelGGL((scale<4>), blocks, dim3(THREADS), 0, 0, x, y, n);",
)
"""The same launch, without brackets that only HIP has."""

ON_THE_HOST = """
#define __device__
#define __constant__
#define __shared__ static
#define __launch_bounds__(...)
struct dim3 { unsigned x; explicit dim3(unsigned of = 1) : x(of) {} };
struct float4 { float x, y, z, w; };
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline dim3 blockIdx(0), threadIdx(0);
#define hipLaunchKernelGGL(kernel, grid, block, shared, stream, ...) \\
    for (blockIdx.x = 0; blockIdx.x < (grid).x; blockIdx.x++) \\
        for (threadIdx.x = 0; threadIdx.x < (block).x; threadIdx.x++) \\
            kernel(__VA_ARGS__)
"""
AS_HIP = """\
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __constant__ __attribute__((constant))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
typedef __SIZE_TYPE__ size_t;
typedef int hipError_t;
typedef void *hipStream_t;
struct dim3 {
    unsigned x, y, z;
    __host__ __device__ dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct float4 { float x, y, z, w; };
static inline __host__ __device__ float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
struct uint3 { unsigned x, y, z; };
extern const __device__ __attribute__((weak)) uint3 blockIdx, threadIdx;
extern "C" hipError_t __hipPushCallConfiguration(dim3, dim3, size_t = 0, hipStream_t = 0);
extern "C" hipError_t __hipPopCallConfiguration(dim3 *, dim3 *, size_t *, hipStream_t *);
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, size_t, hipStream_t);
"""
ARCH = "gfx90a"
"""Older clangs don't know gfx942."""


def kernel(text: str, by: str) -> Candidate:
    source = SourceFile(path="kernel.hip", text=text.replace("@", by))
    return Candidate(language="hip", sources=(source,), build=default_build("hip"))


@needs_gcc
def test_each_size_runs_its_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "rocm"
    (root / "include" / "hip").mkdir(parents=True)
    (root / "include" / "hip" / "hip_runtime.h").write_text(RUNTIME + ON_THE_HOST)
    (root / "bin").mkdir()
    compiler = root / "bin" / "hipcc"
    compiler.write_text(STAND_IN.format(remarks=REMARKS))
    compiler.chmod(0o755)
    monkeypatch.setenv("ROCM_PATH", str(root))
    toolchain = HipToolchain(tmp_path / "cache", MI300X)
    old, new = kernel(LAUNCHED, "2"), kernel(LAUNCHED, "3")
    made = merged(old, new)
    again = merged(made, kernel(LAUNCHED, "5"), dispatch(splits=9, n=(1, 5000)))
    assert read_signature(again) == read_signature(old)
    assert [factor(toolchain, made, n) for n in (2, 2000, 20_000)] == [2, 3, 2]
    assert [factor(toolchain, again, n) for n in (2, 2000, 7000, 20_000)] == [2, 5, 3, 2]


@needs_clang
@pytest.mark.parametrize("half", ["host", "device"])
def test_clang_compiles_both_halves(tmp_path: Path, half: str) -> None:
    (tmp_path / "hip").mkdir()
    (tmp_path / "hip" / "hip_runtime.h").write_text(AS_HIP)
    source, made = tmp_path / "kernel.hip", tmp_path / "kernel.s"
    both = merged(merged(kernel(HIP, "2"), kernel(HIP, "3")), kernel(HIP, "5"), dispatch(splits=9))
    source.write_text(both.kernel.text)
    command = [
        "clang", "-x", "hip", f"--cuda-{half}-only", f"--offload-arch={ARCH}", "-nogpulib",
        "-nogpuinc", "-std=c++17", "-O2", "-Werror", f"-I{tmp_path}", "-S", "-o", str(made),
        str(source),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    if half == "device":  # every kernel is there under a name of its own
        entries = [line for line in made.read_text().splitlines() if ".amdhsa_kernel " in line]
        assert len(set(entries)) == 3, entries
