from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from cuda_kernels import needs_nvcc
from numpy.typing import NDArray
from tool_stand_ins import built_file

from kinds import another
from roofsmith.domain.device import Cache, Device, Environment
from roofsmith.domain.facts import FactSheet
from roofsmith.domain.kernel import Built, Candidate, Signature
from roofsmith.domain.outcome import BuildFailed
from roofsmith.ports import Arguments, KernelSession
from roofsmith.specs.gpu_benches import (
    FALLBACK_BYTES,
    FMA_TYPES,
    MMA_TYPES,
    GpuArithmeticBench,
    gpu_benches,
    gpu_working_sets,
)
from roofsmith.specs.gpu_ceilings import GpuCeilings
from roofsmith.testing.clock import FakeClock
from roofsmith.testing.observer import RecordingObserver, SilentObserver
from roofsmith.toolchains.cuda import CudaToolchain
from roofsmith.toolchains.cuda_toolkit import architecture_for, find_toolkit

pytestmark = pytest.mark.slow

H100 = Device(
    kind="nvidia",
    name="NVIDIA H100 80GB HBM3",
    cores=132,
    caches=(Cache(level=2, kind="unified", size_bytes=50 << 20, shared_by=132),),
    memory_bytes=80 << 30,
    arch="sm_90",
)
MI300X = H100.model_copy(update={"kind": "amd", "name": "AMD Instinct MI300X", "arch": "gfx942"})
OTHER_ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_100")


def environment(device: Device = H100, driver: str = "580.1") -> Environment:
    tools = {"nvcc": "release 13.0, V13.0.88", "nvidia driver": driver}
    return Environment(device=device, system="Linux", tools=tools, packages={})


class Toolchain:
    """Reads signatures and builds nothing."""

    def __init__(self, folder: Path, failure: BuildFailed | None = None) -> None:
        self.failure = failure
        self.reader = CudaToolchain(folder, None)

    def signature(self, candidate: Candidate) -> Signature:
        return self.reader.signature(candidate)

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | BuildFailed, ...]:
        return tuple(map(self.build, candidates))

    def build(self, candidate: Candidate) -> Built | BuildFailed:
        if self.failure is not None:
            return self.failure
        return built_file(Path(candidate.kernel.path), candidate_id=candidate.id)


class Session:
    """Answers with the rates of a round-numbered GPU."""

    pid = 1

    def __init__(self, name: str, count: int, calls: list[str]) -> None:
        self.name, self.count, self.calls = name, count, calls

    def call(self, times: int) -> tuple[float, ...]:
        self.calls.append(self.name)
        return (0.1,) * times

    def outputs(self) -> dict[str, NDArray[np.generic]]:
        rates = {
            "bandwidth.cu": [3e12, 2e12] * (self.count // 2),
            "fma.cu": [6e13, 3e13, 1.2e14, 1.2e14, 3e13],
            "mma.cu": [8e14, 8e14, 4e14, 1.6e15, 0.0, 6e13],
            "mma.hip": [9e14, 9e14, 0.0, 1.8e15, 1.8e15, 1.2e14, 1.1e14],
            "launch.cu": [4e5, 2e5],
            "shared.cu": [3e13],
        }[self.name if self.name == "mma.hip" else self.name.replace(".hip", ".cu")]
        return {"rates": np.array(rates, dtype=np.float64)}


class Runner:
    """Opens such sessions."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @contextmanager
    def open(
        self, built: Built, arguments: Arguments, *, threads: int, **_: object
    ) -> Iterator[KernelSession]:
        assert threads == 1
        rates = arguments["rates"]
        assert isinstance(rates, np.ndarray)
        yield Session(built.library.name, rates.size, self.calls)


def ceilings(folder: Path, runner: Runner, failure: BuildFailed | None = None) -> GpuCeilings:
    return GpuCeilings(
        runner=runner, toolchain=Toolchain(folder, failure), cache_dir=folder, clock=FakeClock()
    )


def values(sheet: FactSheet) -> dict[tuple[str, str], float | None]:
    return {(c.operation, c.dtype): c.fact.value for c in sheet.compute}


def test_every_ceiling_is_cited_as_a_measurement(tmp_path: Path) -> None:
    runner = Runner()
    observer = RecordingObserver()
    sheet = ceilings(tmp_path, runner).facts(environment(), 132, observer)
    assert values(sheet)["mma", "bfloat16"] == 8e14
    assert values(sheet)["fma", "float32"] == 6e13
    assert {c.threads for c in (*sheet.compute, *sheet.bandwidth)} == {1}
    assert {c.working_set_bytes for c in sheet.bandwidth} == set(gpu_working_sets(H100))
    assert all(c.fact.value == 3e12 for c in sheet.bandwidth)
    for fact in sheet.facts():
        assert fact.value is None or fact.citation is not None
    launch = next(f for f in sheet.other if f.metric == "time per launch, queued")
    assert (launch.value, launch.unit) == (pytest.approx(2.5e-6), "s")
    shared = next(f for f in sheet.other if f.metric == "shared memory read bandwidth")
    assert (shared.value, shared.unit) == (3e13, "byte/s")
    assert not any("thread" in fact.metric for fact in sheet.facts())
    units = {c.dtype: c.fact.unit for c in sheet.compute}
    assert {dtype for dtype, unit in units.items() if unit == "OP/s"} == {"int8", "int32"}
    assert set(units.values()) == {"OP/s", "FLOP/s"}
    sm = next(f for f in sheet.other if f.metric == "multiprocessors")
    assert sm.citation is not None
    assert "nvidia-smi" in str(sm.citation)


def test_what_the_device_cannot_do_is_unknown_not_zero(tmp_path: Path) -> None:
    sheet = ceilings(tmp_path, Runner()).facts(environment(), 1, SilentObserver())
    fp8 = next(c.fact for c in sheet.compute if c.dtype == "float8")
    assert fp8.value is None
    assert "sm_90" in str(fp8)
    assert {key for key in values(sheet) if key[0] == "fma"} == {("fma", t) for t in FMA_TYPES}
    matrix = {key for key in values(sheet) if key[0] == "mma"}
    assert matrix == {("mma", t) for t in MMA_TYPES["cuda"]}


def test_measured_once_per_device_and_driver(tmp_path: Path) -> None:
    first, second, other = Runner(), Runner(), Runner()
    ceilings(tmp_path, first).facts(environment(), 1, SilentObserver())
    ceilings(tmp_path, second).facts(environment(), 132, SilentObserver())
    ceilings(tmp_path, other).facts(environment(driver="590.1"), 1, SilentObserver())
    assert first.calls
    assert other.calls
    assert not second.calls


def test_a_failed_build_leaves_every_ceiling_unknown(tmp_path: Path) -> None:
    failure = BuildFailed(reason="compiler_error", detail="mma.cu:3: error")
    sheet = ceilings(tmp_path, Runner(), failure).facts(environment(), 1, SilentObserver())
    assert all(c.fact.value is None for c in (*sheet.compute, *sheet.bandwidth))
    assert "mma.cu:3: error" in str(sheet.bandwidth[0].fact)
    assert len(sheet.compute) == len(FMA_TYPES) + len(MMA_TYPES["cuda"])
    shared = next(f for f in sheet.other if f.metric == "shared memory read bandwidth")
    assert "mma.cu:3: error" in str(shared)


def test_working_sets_lie_well_inside_and_well_outside_the_cache() -> None:
    sizes = gpu_working_sets(H100)
    assert sizes[0] * 4 == 50 << 20
    assert sizes[-1] == 32 * (50 << 20)
    small = H100.model_copy(update={"memory_bytes": 4 << 30})
    assert gpu_working_sets(small)[-1] <= 512 << 20
    assert gpu_working_sets(H100.model_copy(update={"caches": ()})) == FALLBACK_BYTES


def test_amd_gets_the_same_kernels_in_hip_and_matrix_products_of_its_own() -> None:
    benches = gpu_benches(MI300X, 1)
    assert {bench.candidate.language for bench in benches} == {"hip"}
    own = {bench.candidate.kernel.text for bench in benches}
    common = {bench.candidate.kernel.text for bench in gpu_benches(H100, 1)}
    assert len(own - common) == 1
    assert all("__builtin_amdgcn_mfma_" in text for text in own - common)


def test_matrix_ceilings_of_amd_are_cited_or_unknown(tmp_path: Path) -> None:
    sheet = ceilings(tmp_path, Runner()).facts(environment(MI300X), 1, SilentObserver())
    found = {dtype: rate for (kind, dtype), rate in values(sheet).items() if kind == "mma"}
    assert set(found) == set(MMA_TYPES["hip"])
    assert (found["float16"], found["float32"], found["tfloat32"]) == (9e14, 1.1e14, None)
    unknown = next(c.fact for c in sheet.compute if c.dtype == "tfloat32")
    assert "gfx942" in str(unknown)


@pytest.mark.parametrize(
    "bench",
    [*gpu_benches(H100, 1), *gpu_benches(MI300X, 1)],
    ids=lambda b: b.candidate.kernel.path,
)
def test_arguments_fit_the_signature(bench: GpuArithmeticBench, tmp_path: Path) -> None:
    signature = Toolchain(tmp_path).signature(bench.candidate)
    arguments = bench.arguments()
    assert [p.name for p in signature.parameters] == list(arguments)
    for parameter in signature.parameters:
        value = arguments[parameter.name]
        assert isinstance(value, np.ndarray) == (parameter.role != "size")
        if isinstance(value, np.ndarray):
            assert value.dtype == np.dtype(parameter.dtype)


@needs_nvcc
@pytest.mark.parametrize(
    "bench",
    [b if b.candidate.kernel.path == "mma.cu" else another(b) for b in gpu_benches(H100, 1)],
    ids=lambda b: b.candidate.kernel.path,
)
def test_the_kernels_compile(bench: GpuArithmeticBench, tmp_path: Path) -> None:
    built = CudaToolchain(tmp_path, H100).build(bench.candidate)
    assert isinstance(built, Built), built.detail
    spilled = [kernel.name for kernel in built.resources if kernel.spill_store_bytes]
    assert spilled == []


@needs_nvcc
@pytest.mark.parametrize(
    "bench",
    [bench if n == 0 else another(bench) for n, bench in enumerate(gpu_benches(H100, 1))],
    ids=lambda b: b.candidate.kernel.path,
)
def test_they_compile_for_other_architectures(bench: GpuArithmeticBench, tmp_path: Path) -> None:
    """The device's part of the toolchain's command, for all of them at once.

    For the oldest and the newest, where the source is the same for all.
    """
    candidate, toolkit = bench.candidate, find_toolkit()
    others = [H100.model_copy(update={"arch": arch}) for arch in OTHER_ARCHITECTURES]
    assert all(gpu_benches(device, 1) == gpu_benches(H100, 1) for device in others)
    is_one = not any("__CUDA_ARCH__" in source.text for source in candidate.sources)
    tried = OTHER_ARCHITECTURES[:: len(OTHER_ARCHITECTURES) - 1] if is_one else OTHER_ARCHITECTURES
    architectures = [architecture_for(toolkit, arch) for arch in tried]
    for source in candidate.sources:
        (tmp_path / source.path).write_text(source.text)
    command = [
        str(toolkit.compiler.path), *candidate.build.flags, "-Xptxas=-v", "-fatbin", "-I.",
        *(architecture.flag for architecture in architectures), candidate.kernel.path,
        "-o", "fatbin",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=tmp_path)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert {f"'{a.name}'" for a in architectures} == set(re.findall(r"' for ('\w+')", said)), said
    assert set(re.findall(r"(\d+) bytes spill stores", said)) == {"0"}
