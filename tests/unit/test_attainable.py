"""What memory gives under the judge's conditions: a second figure beside the ceilings."""

from __future__ import annotations

import shutil
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofsmith.analysis.fractions import attainable_name, attainable_share
from roofsmith.api.attainable import REFERENCE, CopyProbe, copy_kernels, footprint
from roofsmith.api.hardware import machine_of
from roofsmith.config import Settings
from roofsmith.domain.bound import Bound, Cost
from roofsmith.domain.facts import Citation, Fact
from roofsmith.domain.kernel import Built, SourceFile
from roofsmith.domain.target import Target
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.judge.host.lineup import HostBench
from roofsmith.judge.host.oracle import ReferenceOracle
from roofsmith.judge.parent import ProcessJudge
from roofsmith.testing.observer import SilentObserver

CITED = Citation(path="measured.json")


def rate(value: float | None) -> Fact:
    given: dict[str, Any] = {"citation": CITED} if value else {"reason": "a busy machine"}
    return Fact(metric="bandwidth", value=value, unit="byte/s", **given)


def bound(floor_s: float | None, attainable: Fact | None) -> Bound:
    cost = Cost(flops=0.0, read_bytes=3e6, written_bytes=1e6, dtype="float32", source="test")
    return Bound(
        workload="n=1", cost=cost, intensity=None, ridge=None, limiter="memory",
        floor_time_s=floor_s, bandwidth=rate(4e9), peak=rate(None), attainable=attainable,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("bounds", "share"),
    [
        ([bound(1e-3, rate(1e9)), bound(1e-3, rate(4e9))], 0.6),
        ([bound(1e-2, rate(1e9))], 0.3),  # the floor is of arithmetic, and longer
        ([bound(1e-3, rate(1e9)), bound(None, None)], 1.2),
        ([bound(1e-3, rate(None))], None),
        ([bound(1e-3, None)], None),
    ],
)
def test_shares_are_of_the_longer_of_floor_and_copy(
    bounds: list[Bound], share: float | None
) -> None:
    assert attainable_share(0.3, bounds) == (None if share is None else pytest.approx(share))
    assert attainable_share(None, bounds) is None


def test_a_compute_roof_has_no_bandwidth() -> None:
    memory = bound(1e-3, rate(1e9))
    compute = memory.model_copy(update={"limiter": "compute"})
    assert attainable_name([memory, memory]) == "attainable bandwidth"
    assert attainable_name([memory, compute]) == attainable_name([compute]) == "attainable roof"


def test_a_bound_of_an_older_ledger_has_no_such_figure() -> None:
    older = bound(1e-3, None).model_dump()
    del older["attainable"]
    assert Bound.model_validate(older).attainable_s is None


def test_a_copy_has_the_bytes_of_its_workload_up_to_a_size() -> None:
    assert footprint(bound(1e-3, None)) == Workload(dims={"reads": 750000, "writes": 250000})
    cost = Cost(flops=0.0, read_bytes=0, written_bytes=1e12, dtype="float32", source="test")
    huge = footprint(bound(1e-3, None).model_copy(update={"cost": cost}))
    assert huge == Workload(dims={"reads": 1, "writes": 64 << 20})


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.timing
def test_the_copy_reaches_what_it_is_the_measure_of(tmp_path) -> None:
    machine = machine_of(Settings(cache_dir=tmp_path / "cache", campaigns_dir=tmp_path))
    environment = machine.devices.environment()
    known = cast("Any", SimpleNamespace(threads=1, environment=environment))
    size = Workload(dims={"reads": 1 << 17, "writes": 1 << 17})
    fact = CopyProbe(known, machine, tmp_path).fact(size)
    assert fact == CopyProbe(known, machine, tmp_path).fact(size), "the second one is kept"
    kernels = copy_kernels(1)
    target = Target(
        name="copy", language="c", kernel=kernels[0].kernel, build=kernels[0].build,
        reference=SourceFile(path="reference.py", text=REFERENCE), workloads=(size,), threads=1,
    )  # fmt: skip
    classes = (ConfigClass(name="all", workloads=(size.label,), reason="test"),)
    times = []
    with ReferenceOracle(target, machine.toolchain.signature(target.baseline)) as oracle:
        cache_bytes = environment.device.last_level_cache_bytes
        bench = HostBench(oracle, target.tolerance, 1, cache_bytes)
        judge = ProcessJudge(target, bench, classes, ())
        for kernel in kernels:
            built = machine.toolchain.build(kernel)
            assert isinstance(built, Built)
            found = judge.measure(built, SilentObserver())
            assert found.timings, found.outcome
            times.append(found.timings[0].time_s)
    again = CopyProbe(known, machine, tmp_path / "again").fact(size)
    assert fact.value is not None
    assert again.value is not None
    rate = 8 * (1 << 17) / min(times)
    assert rate > 0.6 * min(fact.value, again.value)  # neighbours of this machine take their share
