from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import numpy as np
import pytest
from ctypes_runner import CtypesRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tool_stand_ins import built_file

from roofsmith.analysis.side_by_side import side_by_side
from roofsmith.domain.device import Device, Environment
from roofsmith.domain.facts import (
    BandwidthCeiling,
    Citation,
    ComputeCeiling,
    Datasheet,
    Fact,
    FactSheet,
)
from roofsmith.domain.kernel import Built, Candidate, Signature
from roofsmith.domain.outcome import BuildFailed, Crashed
from roofsmith.errors import ToolMissingError
from roofsmith.machine.cpu import CpuSource
from roofsmith.ports import Arguments, KernelDiedError, Observer
from roofsmith.specs import ceilings as module
from roofsmith.specs.benches import BandwidthBench, FmaBench
from roofsmith.specs.ceilings import FALLBACK_BYTES, MeasuredCeilings, working_sets
from roofsmith.specs.cited import CitedCeilings
from roofsmith.specs.sheet import CeilingMeasurement, MeasurementFile, newer_of, parse, render
from roofsmith.specs.wiki import Wiki
from roofsmith.testing.clock import FakeClock
from roofsmith.testing.machine import fake_device, fake_environment
from roofsmith.testing.observer import RecordingObserver, SilentObserver
from roofsmith.toolchains.c import CToolchain

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


class ScriptedToolchain:
    """Builds nothing; fails as it is told to."""

    def __init__(self, failure: BuildFailed | Exception | None = None) -> None:
        self.failure = failure

    def signature(self, candidate: Candidate) -> Signature:
        return Signature(parameters=())

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | BuildFailed, ...]:
        return tuple(map(self.build, candidates))

    def build(self, candidate: Candidate) -> Built | BuildFailed:
        if isinstance(self.failure, Exception):
            raise self.failure
        if self.failure is not None:
            return self.failure
        return built_file(Path("none.so"), "c", candidate.id)


class ScriptedRunner:
    """Every call of every kernel gives the next rate of the script, then the last one for ever."""

    def __init__(self, rates: Sequence[float]) -> None:
        self.rates = rates
        self.sessions = 0
        self.calls = 0

    @contextmanager
    def open(self, built: Built, arguments: Arguments, **_: object) -> Iterator[ScriptedSession]:
        self.sessions += 1
        yield ScriptedSession(self, arguments)


class ScriptedSession:
    pid = 1

    def __init__(self, runner: ScriptedRunner, arguments: Arguments) -> None:
        self.runner = runner
        rates = arguments["rates"]
        assert isinstance(rates, np.ndarray)
        self.shape = rates.shape
        self.done = 0

    def call(self, times: int) -> tuple[float, ...]:
        self.done += times
        self.runner.calls += times
        return (0.0,) * times

    def outputs(self) -> dict[str, NDArray[np.generic]]:
        rate = self.runner.rates[min(self.done, len(self.runner.rates)) - 1]
        if rate == 0:
            raise KernelDiedError(Crashed(reason="signal", detail="SIGILL in solve"))
        return {"rates": np.full(self.shape, rate)}


def scripted(
    folder: Path, rates: Sequence[float] = (1e10,), failure: BuildFailed | Exception | None = None
) -> tuple[MeasuredCeilings, ScriptedRunner]:
    runner = ScriptedRunner(rates)
    return MeasuredCeilings(runner, ScriptedToolchain(failure), folder, FakeClock()), runner


def facts(source: MeasuredCeilings, environment: Environment | None = None) -> FactSheet:
    return source.facts(environment or fake_environment(), 2, SilentObserver())


def disturbances(sheet: FactSheet) -> list[str]:
    return [fact.metric for fact in sheet.other if "best two rounds differ" in fact.metric]


def test_measured_once_and_cited_by_line(tmp_path: Path) -> None:
    source, runner = scripted(tmp_path)
    first = facts(source)
    sessions = runner.sessions
    assert facts(source) == first
    assert runner.sessions == sessions
    for ceiling in (*first.bandwidth, *first.compute):
        citation = ceiling.fact.citation
        assert citation.line is not None
        assert (citation.command, citation.date) == ("roofsmith specs measure", "2026-01-01 00:00")
        line = Path(citation.path).read_text().splitlines()[citation.line - 1]
        assert f'"threads": {ceiling.threads}' in line
        assert str(ceiling.fact.value) in line
    assert {c.threads for c in first.bandwidth} == {1, 2}
    assert {c.pattern for c in first.bandwidth} == {"read", "copy", "triad"}
    assert {c.dtype for c in first.compute} == {"float32", "float64"}


def test_another_compiler_or_device_is_measured_anew(tmp_path: Path) -> None:
    source, _ = scripted(tmp_path)
    machine = fake_environment()
    newer = machine.model_copy(update={"tools": {**machine.tools, "gcc": "gcc 99"}})
    larger = fake_environment(fake_device(cores=4))
    paths = {source.path(environment, 2) for environment in (machine, newer, larger)}
    assert len(paths | {source.path(machine, 1)}) == 4
    noted = machine.model_copy(update={"notes": ("load average 9",), "packages": {}})
    assert source.path(noted, 2) == source.path(machine, 2)


@pytest.mark.parametrize("damage", ["", "{", "null", "cut", "edited"])
def test_a_damaged_file_is_measured_again(tmp_path: Path, damage: str) -> None:
    source, runner = scripted(tmp_path)
    first = facts(source)
    path = source.path(fake_environment(), 2)
    whole = path.read_text()
    damaged = {"cut": whole[:-20], "edited": whole.replace("  {", "\n  {")}.get(damage, damage)
    path.write_text(damaged)
    sessions = runner.sessions
    assert facts(source) == first
    assert runner.sessions > sessions
    assert path.read_text() == whole


def test_rounds_go_on_until_the_best_two_agree(tmp_path: Path) -> None:
    climbing = [1e10 * 1.1**n for n in range(6)]
    source, runner = scripted(tmp_path, [*climbing, climbing[-1] * 1.01])
    sheet = facts(source)
    assert runner.calls == 7 * runner.sessions
    assert sheet.compute[0].fact.value == pytest.approx(climbing[-1] * 1.01)
    assert disturbances(sheet) == []


def test_what_never_agrees_is_said(tmp_path: Path) -> None:
    source, runner = scripted(tmp_path, [1e10 * 1.1**n for n in range(20)])
    sheet = facts(source)
    assert runner.calls == module.MAX_ROUNDS * runner.sessions
    (said,) = disturbances(sheet)
    assert "the true ceiling may be higher" in said
    assert disturbances(facts(source)) == [said]


def test_the_time_budget_ends_the_rounds(tmp_path: Path) -> None:
    runner = ScriptedRunner([1e10 * 1.1**n for n in range(20)])
    slow = FakeClock(step_s=module.BUDGET_S)
    source = MeasuredCeilings(runner, ScriptedToolchain(), tmp_path, slow)
    facts(source)
    assert runner.calls == module.MIN_ROUNDS * runner.sessions


def test_measuring_again_says_what_the_machine_does_now_and_what_it_did(tmp_path: Path) -> None:
    fast, _ = scripted(tmp_path, [2e10])
    slow, _ = scripted(tmp_path, [1e10])
    facts(fast)
    sheet = slow.measure_again(fake_environment(), 2, SilentObserver())
    assert {c.fact.value for c in sheet.bandwidth} == {1e10}
    assert {c.fact.value for c in (*sheet.reached_bandwidth, *sheet.reached_compute)} == {2e10}
    assert facts(fast) == sheet
    faster, _ = scripted(tmp_path, [3e10])
    sheet = faster.measure_again(fake_environment(), 2, SilentObserver())
    assert {c.fact.value for c in sheet.bandwidth} == {3e10}
    assert sheet.reached_bandwidth == ()


def test_a_disturbed_measurement_takes_nothing_back(tmp_path: Path) -> None:
    fast, _ = scripted(tmp_path, [2e10])
    first = facts(fast)
    unsteady, _ = scripted(tmp_path, [1e9 * 1.1**n for n in range(module.MAX_ROUNDS)])
    sheet = unsteady.measure_again(fake_environment(), 2, SilentObserver())
    assert (sheet.bandwidth, sheet.compute) == (first.bandwidth, first.compute)


@pytest.mark.parametrize(("rate", "is_measured"), [(1.9e10, False), (1.5e10, True), (3e10, True)])
def test_kept_ceilings_are_looked_at_after_a_while(
    tmp_path: Path, rate: float, is_measured: bool
) -> None:
    source, _ = scripted(tmp_path, [2e10])
    first, path = facts(source), source.path(fake_environment(), 2)
    os.utime(path, (0, 0))
    today, runner = scripted(tmp_path, [rate])
    sheet = facts(today)
    assert (sheet != first) == is_measured
    assert {c.fact.value for c in sheet.compute} == {rate if is_measured else 2e10}
    sessions = runner.sessions
    assert facts(today) == sheet
    assert runner.sessions == sessions, "a look holds for a while"


def test_other_conditions_mean_another_measurement(tmp_path: Path) -> None:
    source, _ = scripted(tmp_path)
    paths = {
        replace(source, conditions=lambda said=said: said).path(fake_environment(), 2)
        for said in ({}, {"microcode": "0x1"}, {"microcode": "0x2"})
    }
    assert len(paths) == 3
    assert CpuSource(tmp_path).conditions() == {}


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (ToolMissingError("no C compiler on PATH", hint="install gcc"), "no C compiler on PATH"),
        (BuildFailed(reason="compile_error", detail="fma.c:3: error"), "fma.c:3: error"),
    ],
)
def test_without_a_compiler_ceilings_are_unknown(
    tmp_path: Path, failure: BuildFailed | Exception, said: str
) -> None:
    source, _ = scripted(tmp_path, failure=failure)
    sheet = facts(source)
    ceilings = [c.fact for c in (*sheet.bandwidth, *sheet.compute)]
    assert ceilings
    assert all(fact.value is None and said in (fact.reason or "") for fact in ceilings)
    assert not source.path(fake_environment(), 2).exists()
    assert any(fact.value is not None for fact in sheet.other)


@pytest.mark.parametrize(("rate", "said"), [(0.0, "SIGILL in solve"), (-1.0, "no memory")])
def test_a_kernel_that_fails_is_unknown_not_zero(tmp_path: Path, rate: float, said: str) -> None:
    sheet = facts(scripted(tmp_path, [rate])[0])
    assert all(said in (c.fact.reason or "") for c in sheet.bandwidth)


def test_a_folder_that_cant_be_written_still_gives_facts(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    sheet = facts(scripted(in_the_way / "cache")[0])
    citation = sheet.bandwidth[0].fact.citation
    assert sheet.bandwidth[0].fact.value == 1e10
    assert "not kept" in citation.path


def test_two_at_once_measure_once(tmp_path: Path) -> None:
    source, runner = scripted(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        sheets = list(pool.map(lambda _: facts(source), range(4)))
    assert all(sheet == sheets[0] for sheet in sheets)
    assert runner.sessions == 6
    assert [p.suffix for p in sorted(tmp_path.iterdir())] == [".json", ".lock"]


def test_the_observer_hears_of_it(tmp_path: Path) -> None:
    observer = RecordingObserver()
    scripted(tmp_path)[0].facts(fake_environment(), 2, observer)
    assert observer.stages == ["ceilings"]
    assert observer.fractions == sorted(observer.fractions)
    assert observer.fractions[-1] == 1.0


measurements = st.builds(
    CeilingMeasurement,
    kind=st.just("bandwidth"),
    subject=st.sampled_from(["read", "copy", "triad"]),
    threads=st.integers(1, 4),
    working_set_bytes=st.integers(0, 1 << 40),
    rate=st.floats(1e-3, 1e15),
    variant=st.text(),
    spread=st.floats(0, 1),
    rounds=st.integers(1, 9),
    date=st.text(),
)


@given(st.lists(measurements), st.text())
def test_files_round_trip_with_a_line_per_measurement(
    found: list[CeilingMeasurement], name: str
) -> None:
    file = MeasurementFile(device=name, compiler=name, measurements=tuple(found))
    text = render(file)
    assert parse(text) == file
    assert len([line for line in text.split("\n") if line.startswith("  {")]) == len(found)


one_per_key = st.lists(measurements, unique_by=lambda measurement: measurement.key)


@given(one_per_key, one_per_key)
def test_nothing_that_was_reached_is_taken_back(
    old: list[CeilingMeasurement], new: list[CeilingMeasurement]
) -> None:
    best = {m.key: max(m.rate, m.reached or 0.0) for m in newer_of(old, new, 0.02)}
    for measurement in old + new:
        assert best[measurement.key] >= measurement.rate


def test_working_sets_lie_inside_and_outside_each_cache() -> None:
    kib = [size >> 10 for size in working_sets(fake_device(), 2)]
    assert kib == [32, 128, 512, 2048, 8192, 16384, 131072]
    no_caches = fake_device().model_copy(update={"caches": ()})
    assert working_sets(no_caches, 2) == FALLBACK_BYTES


@needs_gcc
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_fma_loop_is_nothing_but_arithmetic(
    tmp_path: Path, dtype: Literal["float32", "float64"]
) -> None:
    objdump = shutil.which("objdump")
    if objdump is None or "fma" not in CpuSource().environment().device.isa:
        pytest.skip("needs objdump and a processor with x86 FMA")
    bench = FmaBench(dtype, 1)
    built = CToolchain(tmp_path).build(bench.candidate)
    assert isinstance(built, Built)
    listing = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", str(built.library)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = listing.splitlines()
    arithmetic = [i for i, line in enumerate(lines) if re.search(r"vfmadd\d+p[sd]", line)]
    loop = lines[arithmetic[0] : arithmetic[-1] + 1]
    others = [line for line in loop if "vfmadd" not in line]
    assert len(arithmetic) >= 4 * 12
    assert all(re.search(r"\b(inc|add|sub|dec|cmp)\b", line) for line in others), others
    assert not any("(" in line for line in loop), "a memory operand in the loop"


@needs_gcc
def test_real_kernels_give_plausible_rates(tmp_path: Path) -> None:
    """In bytes and operations per second: other work may make them low, but not by units."""
    toolchain = CToolchain(tmp_path)
    for bench, least, most in (
        (FmaBench("float64", 1), 1e5, 1e13),
        (FmaBench("float32", 2), 1e5, 1e13),
        (BandwidthBench(2, (64 << 10, 1 << 20)), 1e5, 1e13),
    ):
        built = toolchain.build(bench.candidate)
        assert isinstance(built, Built), built
        with CtypesRunner().open(built, bench.arguments(), threads=bench.threads) as session:
            samples = bench.round(session)
        assert samples
        for key, rate, variant in samples:
            assert least < rate < most, (key, rate, variant)


HERE = Citation(path="ceilings.json", line=6, command="roofsmith specs measure")
H100 = Device(
    kind="nvidia", name="NVIDIA H100 80GB HBM3", cores=132, memory_bytes=85520809984, arch="sm_90"
)
CPU = Device(kind="cpu", name="AMD EPYC 7763 64-Core Processor", cores=2)


def fact(metric: str, value: float | None, unit: str = "byte/s") -> Fact:
    return Fact(metric=metric, value=value, unit=unit, citation=HERE, reason="not measured")


def bandwidth(size: int, value: float | None, pattern: str = "copy") -> BandwidthCeiling:
    told = {"pattern": pattern, "threads": 1, "working_set_bytes": size}
    return BandwidthCeiling.model_validate({**told, "fact": fact(f"{pattern} at {size}", value)})


SHEET = FactSheet(
    device_id="x",
    bandwidth=(
        bandwidth(1 << 24, 7e12),
        bandwidth(1 << 30, 3e12),
        bandwidth(1 << 30, 2e12, "read"),
    ),
    compute=(
        ComputeCeiling(
            operation="mma", dtype="float16", threads=1, fact=fact("fp16", 7.9e14, "FLOP/s")
        ),
    ),
    other=(fact("multiprocessors", 132, "1"),),
)


@dataclass(frozen=True)
class Measured:
    """Ceilings that are known beforehand."""

    def facts(self, environment: Environment, threads: int, observer: Observer) -> FactSheet:
        return SHEET

    def measure_again(
        self, environment: Environment, threads: int, observer: Observer
    ) -> FactSheet:
        return SHEET


class Shelf:
    """A wiki that counts who takes it out."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self) -> Wiki:
        self.taken += 1
        return Wiki.load()


def cited(device: Device, shelf: Shelf | None = None) -> FactSheet:
    environment = Environment(device=device, system="Linux", tools={}, packages={})
    source = CitedCeilings(cast("MeasuredCeilings", Measured()), shelf or Shelf())
    again = source.measure_again(environment, 1, SilentObserver())
    first = source.facts(environment, 1, SilentObserver())
    assert first == again
    return first


def datasheet(sheet: FactSheet) -> Datasheet:
    assert sheet.datasheet is not None
    return sheet.datasheet


def test_an_identified_gpu_has_its_datasheet() -> None:
    sheet = cited(H100)
    assert datasheet(sheet).page == "nvidia-h100-sxm5-80gb"
    assert datasheet(sheet).bandwidth.value == 3.35e12
    assert sheet.other == SHEET.other
    assert sheet.facts()[: len(SHEET.facts())] == SHEET.facts()
    assert set(datasheet(sheet).facts()) <= set(sheet.facts())
    assert not any("datasheet of" in f.metric for f in sheet.facts())


@pytest.mark.parametrize(
    "name",
    ["NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H100", "NVIDIA H100 80GB HBM4", "AMD Radeon"],
)
def test_an_unidentified_gpu_says_so(name: str) -> None:
    sheet = cited(H100.model_copy(update={"name": name}))
    assert sheet.datasheet is None
    assert str(sheet.other[-1]) == f"datasheet of {name}: UNKNOWN (wiki not found)"
    assert sheet.bandwidth == SHEET.bandwidth


def test_a_slice_under_the_products_name_says_why_it_is_none() -> None:
    sheet = cited(H100.model_copy(update={"cores": 60}))
    assert sheet.datasheet is None
    assert str(sheet.other[-1]) == (
        "datasheet of NVIDIA H100 80GB HBM3 (it has 60 multiprocessors, H100 SXM5 80GB has 132):"
        " UNKNOWN (wiki not found)"
    )


def test_of_a_processor_there_is_no_page_and_no_page_is_read() -> None:
    shelf = Shelf()
    sheet = cited(CPU, shelf)
    assert shelf.taken == 0
    assert sheet.datasheet is None
    assert [str(f) for f in sheet.facts() if f.value is None] == [
        "datasheet of AMD EPYC 7763 64-Core Processor: UNKNOWN (wiki not found)"
    ]


@pytest.mark.rule("measured-ceilings")
def test_side_by_side() -> None:
    pairs = {pair.name: pair for pair in side_by_side(cited(H100))}
    memory = pairs["memory bandwidth"]
    assert memory.measured.value == 3e12
    assert memory.ratio == pytest.approx(3 / 3.35)
    assert pairs["float16 matrix peak"].ratio == pytest.approx(790 / 989.4)
    assert pairs["float32 FMA peak"].measured is None
    assert pairs["float32 FMA peak"].ratio is None
    assert next(iter(pairs)) == "memory bandwidth"


def test_side_by_side_of_what_nobody_knows() -> None:
    nothing = FactSheet(device_id="x", bandwidth=(bandwidth(1, None),))
    (pair,) = side_by_side(nothing)
    assert (pair.datasheet, pair.ratio) == (None, None)
    assert pair.measured.value is None
    assert side_by_side(FactSheet(device_id="x"))[0].measured is None
    assert side_by_side(cited(CPU))[0].ratio is None


def test_side_by_side_takes_the_most_threads_and_the_highest() -> None:
    peaks = tuple(
        ComputeCeiling(dtype="float32", threads=n, fact=fact(f"{n} at {v}", v, "FLOP/s"))
        for n, v in ((1, 9e9), (2, 5e9), (2, 7e9))
    )
    pair = side_by_side(FactSheet(device_id="x", compute=peaks))[1]
    assert pair.measured.value == 7e9
