"""ncu and torch.profiler on a real NVIDIA GPU: `pytest -m device tests/device -k ncu -rs`.

Needs nvcc for the kernels, and ncu for all but the last test. Where counters are forbidden, the
note says how to allow them, and the tests that need them are skipped with it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from gpu_bench import environment_or_skip, nvcc_or_skip
from numpy.typing import NDArray

from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import Built, Parameter, Signature
from roofsmith.domain.profile import Profile
from roofsmith.domain.values import content_id
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError
from roofsmith.judge.gpu.runner import GpuRunner
from roofsmith.profilers.gpu import GpuProfiler
from roofsmith.profilers.ncu import NcuProfiler, find_ncu
from roofsmith.profilers.torch_profiler import TorchProfiler, find_torch

pytestmark = pytest.mark.device

N = 1 << 24
WORKLOAD = Workload(dims={"N": N})
KERNELS = """
__global__ void init(float *y) { y[0] = 0; }
__global__ void scale(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
__global__ void strided(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[(long long)i * 1031 % n];
}
extern "C" void solve(const float *x, float *y, int n) {
    init<<<1, 1>>>(y);
    CALLED<<<(n + 255) / 256, 256>>>(x, y, n);
    cudaDeviceSynchronize();
}
"""


class RandomArray:
    def describe(self, workload: Workload) -> WorkloadDescription:
        raise BadReferenceError("not needed by profilers")

    def inputs(self, workload: Workload, seed: int) -> dict[str, NDArray[np.generic] | int]:
        x = np.random.default_rng(seed).standard_normal(N, dtype=np.float32)
        return {"x": x, "y": np.zeros_like(x), "n": N}


@pytest.fixture(scope="module")
def runner(shared_cache: Path) -> GpuRunner:
    return GpuRunner(cache_dir=shared_cache / "compiled")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Built]:
    """By the name of the one that `solve` calls; compiled at the same time."""
    environment_or_skip()
    nvcc_or_skip()
    folder, names = tmp_path_factory.mktemp("kernels"), ("scale", "strided")
    with ThreadPoolExecutor(len(names)) as pool:
        return dict(zip(names, pool.map(partial(build, folder), names), strict=True))


def build(folder: Path, called: str) -> Built:
    source, library = folder / f"{called}.cu", folder / f"{called}.so"
    source.write_text(KERNELS.replace("CALLED", called))
    command = [*nvcc_or_skip(), "-O3", "-arch=native", "-lineinfo", "-Xcompiler=-fPIC", "-shared",
               "-cudart=shared", "-o", str(library), str(source)]  # fmt: skip
    subprocess.run(command, check=True, timeout=120)
    parameters = (
        Parameter(name="x", role="input", dtype="float32"),
        Parameter(name="y", role="output", dtype="float32"),
        Parameter(name="n", role="size", dtype="int32"),
    )
    return Built(
        candidate_id=called, language="cuda", library=library,
        library_sha256=content_id(library.read_bytes()),
        signature=Signature(parameters=parameters), environment={}, command=" ".join(command),
        log=folder / "log", build_time_s=1.0,
    )  # fmt: skip


def counted(runner: GpuRunner, built: Built) -> Profile:
    if find_ncu() is None:
        pytest.skip("ncu is not installed")
    found = NcuProfiler(runner, RandomArray()).profile(built, WORKLOAD)
    if found.tool != "ncu" and any("ERR_NVGPUCTRPERM" in note for note in found.notes):
        pytest.skip(found.notes[0])
    assert found.tool == "ncu", found.notes
    return found


def test_ncu_counts_one_call(runner: GpuRunner, kernels: Mapping[str, Built]) -> None:
    found = counted(runner, kernels["scale"])
    assert found.kernel == "scale"
    assert any("one call after the first" in note for note in found.notes), found.notes
    assert found.get("kernels_per_call") == 2
    assert found.get("grid_size") == N // 256
    assert found.get("block_size") == 256
    # Every input byte comes from memory once; part of the output may stay in L2.
    assert found.get("dram_bytes_read") == pytest.approx(4 * N, rel=0.05)
    assert found.get("global_load_efficiency") == pytest.approx(1.0)
    # Of 4.8 TB/s, so short a kernel reaches less than half.
    assert (found.get("dram_throughput") or 0) > 0.3
    assert (found.get("active_lanes") or 0) > 0.99
    categories = {counter.category for counter in found.counters}
    assert len(categories) == 8, categories


def test_ncu_sees_strided_loads(runner: GpuRunner, kernels: Mapping[str, Built]) -> None:
    found = counted(runner, kernels["strided"])
    assert found.kernel == "strided"
    assert found.get("global_load_efficiency") == pytest.approx(1 / 8, rel=0.02)
    assert found.get("sectors_per_load_request") == pytest.approx(32, rel=0.02)
    assert (found.get("stall_long_scoreboard_share") or 0) > 0.3


def test_torch_stands_in(runner: GpuRunner, kernels: Mapping[str, Built]) -> None:
    if find_torch() is None:
        pytest.skip("torch is not installed")
    found = TorchProfiler(runner, RandomArray()).profile(kernels["scale"], WORKLOAD)
    assert (found.tool, found.kernel) == ("torch", "scale"), found.notes
    assert not any("can't be told apart" in note for note in found.notes), found.notes
    assert found.get("kernels_per_call") == 2
    assert found.get("grid_size") == N // 256
    assert (found.get("registers_per_thread") or 0) > 0
    assert found.get("theoretical_occupancy") == 1.0
    assert found.get("dram_bytes_read") is None
    # 134 MB at most at the bandwidth of today's fastest memory, and no slower than a hundredth.
    assert 16e-6 < (found.get("kernel_time_s") or 0) < 2e-3


def test_the_front_gives_a_profile_whatever_is_allowed(
    runner: GpuRunner, kernels: Mapping[str, Built]
) -> None:
    found = GpuProfiler(runner, RandomArray(), "nvidia").profile(kernels["scale"], WORKLOAD)
    assert found.tool in ("ncu", "torch") or len(found.notes) >= 2
    if found.tool != "none":
        assert found.kernel == "scale"
