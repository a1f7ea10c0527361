"""compute-sanitizer on a real NVIDIA GPU: `pytest -m device tests/device -k sanitizer -rs`.

Needs nvcc and compute-sanitizer. The defects are such that guard bands and outputs don't show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from gpu_bench import RandomVector, environment_or_skip
from gpu_judging import machine_for

from roofsmith.domain.inspection import Inspection, InspectionFound, SanitizerTool, Unavailable
from roofsmith.domain.kernel import Built, Candidate, SourceFile
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.workload import Workload
from roofsmith.judge.gpu.runner import GpuRunner
from roofsmith.profilers.proof import Proof, defective
from roofsmith.profilers.sanitizer import TOOLS, SanitizerInspector, find_compute_sanitizer

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

UNMAPPED = CLEAN.replace("y[i] = 2 * x[i];", "*(float*)16 = x[i];")


KERNELS = {
    "clean": CLEAN,
    "unmapped": UNMAPPED,
    **{tool: defective(tool).sources[0].text for tool in TOOLS},
    "unordered": UNORDERED,
}


@pytest.fixture(scope="module")
def inspections(shared_cache: Path) -> Iterator[Mapping[str, Future[Inspection]]]:
    """Of all kernels at the same time: every tool takes seconds to start, and times nothing."""
    environment_or_skip()
    if find_compute_sanitizer() is None:
        pytest.skip("compute-sanitizer is not installed")
    candidates = [
        Candidate(language="cuda", sources=(SourceFile(path="kernel.cu", text=text),))
        for text in KERNELS.values()
    ]
    machine = machine_for("cuda", shared_cache)
    runner = GpuRunner(cache_dir=machine.compiled_dir)
    inspector = SanitizerInspector(runner, RandomVector(), Proof(machine.toolchain.build))

    def inspected(built: Built | BuildFailed) -> Inspection:
        assert isinstance(built, Built), built.detail
        return inspector.inspect(built, WORKLOAD)

    every = machine.toolchain.build_all(candidates)
    with ThreadPoolExecutor(len(every)) as pool:
        yield {n: pool.submit(inspected, b) for n, b in zip(KERNELS, every, strict=True)}


def inspection(found: Future[Inspection]) -> Inspection:
    """What every tool could look at."""
    for report in found.result().reports:
        assert not isinstance(report, Unavailable), report.reason
    return found.result()


def test_a_clean_kernel(inspections: Mapping[str, Future[Inspection]]) -> None:
    found = inspection(inspections["clean"])
    assert found.failure is None
    assert found.repeatable is True, found.notes


@pytest.mark.parametrize(
    ("tool", "kernel", "culprit"),
    [
        ("memcheck", "fill", "one too many"),
        ("racecheck", "reverse", "tile["),
        ("initcheck", "add", "+ scratch[i]"),
    ],
)
def test_a_defect_that_outputs_hide(
    inspections: Mapping[str, Future[Inspection]], tool: SanitizerTool, kernel: str, culprit: str
) -> None:
    found = inspection(inspections[tool])
    assert found.failure is not None
    assert found.failure.reason == f"sanitizer_{tool}"
    report = next(r for r in found.reports if isinstance(r, InspectionFound))
    defect = report.defects[0]
    assert defect.kernel == kernel, defect
    assert defect.source is not None
    line = KERNELS[tool].splitlines()[int(defect.source.rsplit(":", 1)[1]) - 1]
    assert culprit in line, defect


def test_sums_in_any_order_are_reported_and_reject_nobody(
    inspections: Mapping[str, Future[Inspection]],
) -> None:
    found = inspection(inspections["unordered"])
    assert found.failure is None
    assert found.repeatable is False, found.notes


def test_the_line_that_makes_a_kernel_crash_is_named(
    inspections: Mapping[str, Future[Inspection]],
) -> None:
    """Whoever asks for sanitizers after an illegal address wants just that."""
    found = inspections["unmapped"].result()
    report = next(r for r in found.reports if isinstance(r, InspectionFound))
    assert report.tool == "memcheck", found
    defect = report.defects[0]
    assert defect.kernel == "twice", defect
    assert defect.source is not None
    line = UNMAPPED.splitlines()[int(defect.source.rsplit(":", 1)[1]) - 1]
    assert "*(float*)16" in line, defect
    assert found.repeatable is None, found.notes
