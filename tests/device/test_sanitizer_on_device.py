"""compute-sanitizer on a real NVIDIA GPU: `pytest -m device tests/device -k sanitizer -rs`.

Needs nvcc and compute-sanitizer. The defects are such that guard bands and outputs don't show them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_bench import RandomVector, environment_or_skip

from roofsmith.domain.inspection import Found, Inspection, SanitizerTool, Unavailable
from roofsmith.domain.kernel import Built, Candidate, SourceFile
from roofsmith.domain.workload import Workload
from roofsmith.judge.gpu.runner import GpuRunner
from roofsmith.profilers.sanitizer import SanitizerInspector, find_compute_sanitizer
from roofsmith.toolchains.cuda import CudaToolchain

pytestmark = pytest.mark.device

WORKLOAD = Workload(dims={"N": 4096})

CLEAN = """
#include <cuda_runtime.h>
__global__ void twice(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = 2 * x[i];
}
extern "C" void solve(const float* x, float* y, int N) {
    twice<<<(N + 255) / 256, 256>>>(x, y, N);
    cudaDeviceSynchronize();
}
"""
OVERFLOW = """
#include <cuda_runtime.h>
__global__ void fill(const float* x, float* scratch, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= N) scratch[i] = i < N ? x[i] : 0;  // one too many
}
__global__ void twice(const float* scratch, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = 2 * scratch[i];
}
extern "C" void solve(const float* x, float* y, int N) {
    float* scratch;
    cudaMalloc(&scratch, N * sizeof(float));
    fill<<<N / 256 + 1, 256>>>(x, scratch, N);
    twice<<<(N + 255) / 256, 256>>>(scratch, y, N);
    cudaDeviceSynchronize();
    cudaFree(scratch);
}
"""
RACE = """
#include <cuda_runtime.h>
__global__ void reverse(const float* x, float* y, int N) {
    __shared__ float tile[256];
    int base = blockIdx.x * 256;
    tile[threadIdx.x] = x[base + threadIdx.x];
    y[base + threadIdx.x] = tile[255 - threadIdx.x];  // no __syncthreads() before
}
extern "C" void solve(const float* x, float* y, int N) {
    reverse<<<N / 256, 256>>>(x, y, N);
    cudaDeviceSynchronize();
}
"""
UNINITIALISED = """
#include <cuda_runtime.h>
__global__ void add(const float* x, const float* scratch, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = x[i] + scratch[i];
}
extern "C" void solve(const float* x, float* y, int N) {
    float* scratch;
    cudaMalloc(&scratch, N * sizeof(float));  // and never written
    add<<<(N + 255) / 256, 256>>>(x, scratch, y, N);
    cudaDeviceSynchronize();
    cudaFree(scratch);
}
"""
UNORDERED = """
#include <cuda_runtime.h>
__global__ void zero(float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = 0;
}
__global__ void sum(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 64; k++) atomicAdd(y + k, x[(i * 31 + k * 17) % N] * 1.1f);
}
extern "C" void solve(const float* x, float* y, int N) {
    zero<<<(N + 255) / 256, 256>>>(y, N);
    sum<<<N / 32, 32>>>(x, y, N);
    cudaDeviceSynchronize();
}
"""


def build(folder: Path, text: str) -> Built:
    built = CudaToolchain(folder / "builds", environment_or_skip().device).build(
        Candidate(
            language="cuda",
            sources=(SourceFile(path="kernel.cu", text=text),),
        )
    )
    assert isinstance(built, Built), built.detail
    return built


def inspect(folder: Path, text: str) -> Inspection:
    built = build(folder, text)
    if find_compute_sanitizer() is None:
        pytest.skip("compute-sanitizer is not installed")
    inspector = SanitizerInspector(GpuRunner(cache_dir=folder / "cache"), RandomVector())
    found = inspector.inspect(built, WORKLOAD)
    for report in found.reports:
        assert not isinstance(report, Unavailable), report.reason
    return found


def test_a_clean_kernel(tmp_path: Path) -> None:
    found = inspect(tmp_path, CLEAN)
    assert found.failure is None
    assert found.repeatable is True, found.notes


@pytest.mark.parametrize(
    ("tool", "text", "kernel", "culprit"),
    [
        ("memcheck", OVERFLOW, "fill", "one too many"),
        ("racecheck", RACE, "reverse", "tile["),
        ("initcheck", UNINITIALISED, "add", "+ scratch[i]"),
    ],
)
def test_a_defect_that_outputs_hide(
    tmp_path: Path, tool: SanitizerTool, text: str, kernel: str, culprit: str
) -> None:
    found = inspect(tmp_path, text)
    assert found.failure is not None
    assert found.failure.reason == f"sanitizer_{tool}"
    report = next(r for r in found.reports if isinstance(r, Found))
    defect = report.defects[0]
    assert defect.kernel == kernel, defect
    assert defect.source is not None
    assert culprit in text.splitlines()[int(defect.source.rsplit(":", 1)[1]) - 1], defect


def test_sums_in_any_order_are_reported_and_reject_nobody(tmp_path: Path) -> None:
    found = inspect(tmp_path, UNORDERED)
    assert found.failure is None
    assert found.repeatable is False, found.notes
