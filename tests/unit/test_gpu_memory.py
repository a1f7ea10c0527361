"""How much of a device's memory the judge takes, and what it keeps for itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import SourceFile
from roofsmith.domain.target import Target, Tolerance
from roofsmith.domain.workload import Workload
from roofsmith.judge.gpu import lineup
from roofsmith.judge.gpu.arenas import RESERVED_BYTES, Arenas
from roofsmith.judge.gpu.layout import lay_out
from roofsmith.judge.gpu.lineup import GpuBench
from roofsmith.judge.gpu.oracle import DeviceFullError, GpuOracle
from roofsmith.judge.sandbox.isolation import NO_ISOLATION

GIB = 2**30
FREE_BYTES = 78 * GIB
"""Of an H100, once the reference is loaded."""
ROWS = (ArraySpec("x", "input", "float32", (4096, 4096)),) * 2
"""Two arrays of 64 MiB: a call that a device reads and writes within 50 us."""


def bench(workloads: int, tmp_path: Path) -> tuple[GpuBench, Target]:
    source = SourceFile(path="kernel.cu", text="")
    target = Target(
        name="rows", language="cuda", kernel=source, reference=source,
        workloads=tuple(Workload(dims={"N": 1 + n}) for n in range(workloads)),
    )  # fmt: skip
    oracle = Mock(spec=GpuOracle, target=target, memory_bytes=int(0.8 * FREE_BYTES))
    oracle.describe.return_value = WorkloadDescription(ROWS, {}, None, None, None, None)
    made = GpuBench(
        oracle, Tolerance(), cast(Any, None), api="cuda", cache_dir=tmp_path,
        isolation=NO_ISOLATION,
    )  # fmt: skip
    return made, target


@pytest.mark.parametrize("workloads", [1, 2, 3, 4, 8, 20])
@pytest.mark.parametrize("by_clock", [True, False])
def test_all_workloads_of_a_target_fit_at_the_same_time(
    workloads: int, by_clock: bool, tmp_path: Path
) -> None:
    """Arenas, their drafts, and what is drawn for them, which lies elsewhere on the device."""
    made, target = bench(workloads, tmp_path)
    plans = [
        made.clock_plan(workload, [50e-6, 50e-6], 25e-3) if by_clock else made.plan(workload, 50e-6)
        for workload in target.workloads
    ]
    taken = sum(3 * plan.slots for plan in plans) * lay_out(ROWS).slot_bytes
    assert taken < 0.75 * FREE_BYTES
    assert min(plan.calls for plan in plans) >= 6


@pytest.mark.parametrize(("by_clock", "sets"), [(False, 5), (True, 1)])
def test_as_many_processes_start_as_decide_anything(
    by_clock: bool, sets: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """9 pairs that can keep it, two to a pair of processes; 5 of the clock's, six to each."""
    asked: list[int] = []

    class Starter:
        def __init__(self, kernels: object, shared: object, fewest: int) -> None:
            asked.append(fewest)

        def close(self) -> None:
            pass

    monkeypatch.setattr(lineup, "Starter", Starter)
    made, _ = bench(1, tmp_path)
    with made.lineups((), by_clock=by_clock):
        assert asked == [sets]


class Arena:
    bytes = torch.empty(GIB, dtype=torch.uint8, device="meta")

    def __init__(self, *, has_draft: bool) -> None:
        self.has_draft = has_draft


def test_what_was_kept_for_draws_is_kept_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that takes all the rest then starves itself, not the judge."""
    kept: list[int] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (FREE_BYTES, 80 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: GIB)
    monkeypatch.setattr(torch, "empty", lambda size_bytes, **_: kept.append(size_bytes))
    arenas = Arenas(cast(Any, None))
    assert arenas.rest() == FREE_BYTES
    assert kept == []
    arenas._arenas[0] = cast(Any, Arena(has_draft=False))
    arenas._arenas[1] = cast(Any, Arena(has_draft=True))
    assert arenas.rest() == FREE_BYTES
    assert kept == [5 * GIB + RESERVED_BYTES - GIB]


class FullOnce:
    """A device whose memory comes back once who is ending has ended."""

    def __init__(self, made: GpuBench) -> None:
        self._shared, self.asked = made._shared, 0

    def slots(self, workload: Workload, count: int) -> str:
        self.asked += 1
        if self._shared.ending:
            raise DeviceFullError("not enough memory")
        return f"{count} slots"


def test_who_is_ending_gives_its_memory_back_first(tmp_path: Path) -> None:
    made, target = bench(1, tmp_path)
    made._oracle = device = FullOnce(made)  # type: ignore[assignment]
    closed = Mock()
    made._shared.ending.append(closed)
    assert made.inputs(target.workloads[0], 3) == "3 slots"
    assert (device.asked, closed.close.call_count) == (2, 1)


def test_a_full_device_that_nobody_holds_is_said(tmp_path: Path) -> None:
    made, target = bench(1, tmp_path)
    made._oracle = Mock(slots=Mock(side_effect=DeviceFullError("not enough memory")))
    with pytest.raises(DeviceFullError, match="not enough"):
        made.inputs(target.workloads[0], 3)
