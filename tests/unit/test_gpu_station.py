"""In which order a GPU's station fills memory and lets calls run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from roofsmith.domain.target import Tolerance
from roofsmith.domain.workload import Workload
from roofsmith.judge.bench import SegmentPlan
from roofsmith.judge.budgets import Budgets
from roofsmith.judge.gpu.process import GpuSegment
from roofsmith.judge.gpu.station import GpuStation, Shared

SEGMENT = GpuSegment(elapsed_s=1e-3, wall_s=2e-3)
PLAN = SegmentPlan(4, warm=2)


class Diary:
    """What happened, in order."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, int]] = []

    def note(self, what: str, count: int) -> None:
        self.entries.append((what, count))


class Slots:
    """Device memory that notes when it is filled."""

    number, is_blank = 0, False
    workload = Workload(dims={"N": 8})

    def __init__(self, diary: Diary) -> None:
        self._diary = diary

    def draw(self, slots: Sequence[int], seeds: Sequence[int]) -> None:
        assert len(slots) == len(seeds)

    def deal(self, order: Sequence[int]) -> None:
        assert all(one != other for one, other in enumerate(order))

    def fill(self, slots: Sequence[int]) -> None:
        self._diary.note("fill", len(slots))


class Worker:
    """A process whose kernel waits for the device itself, or doesn't."""

    def __init__(self, diary: Diary, *, waits: bool) -> None:
        self._diary, self._waits = diary, waits
        self.is_awake = False

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        self.is_awake = True
        yield
        self.is_awake = False

    def attach(self, slots: Slots) -> None:
        pass

    def wake(self) -> None:
        pass

    def pause(self) -> None:
        pass

    def begin_first_call(self, arena: int, slot: int) -> None:
        pass

    def end_first_call(self, deadline_s: float) -> None:
        pass

    def queue_slots(self, arena: int, slots: Sequence[int], **_: Any) -> bool:
        assert self.is_awake
        self._diary.note("queue", len(slots))
        return not self._waits

    def run_queued(self, deadline_s: float) -> GpuSegment:
        self._diary.note("let go", 0)
        return SEGMENT

    def run_slots(
        self, arena: int, slots: Sequence[int], *, warm: Sequence[int], deadline_s: float
    ) -> GpuSegment:
        assert self.is_awake
        self._diary.note("run", len(slots))
        self._diary.note("discard", len(warm))
        return SEGMENT


def turn(*, waits: bool, tmp_path: Path) -> list[tuple[str, int]]:
    """Two turns of one side; what the second one did."""
    diary = Diary()
    bench = Shared(Budgets(Tolerance()), "cuda", tmp_path, cast(Any, None), None, cast(Any, None))
    station = GpuStation(
        cast(Any, Slots(diary)), [cast(Any, Worker(diary, waits=waits))], PLAN, bench
    )
    station.turn([0], 1.0)
    diary.entries.clear()
    station.turn([0], 1.0)
    return diary.entries


def test_inputs_come_once_all_calls_are_queued(tmp_path: Path) -> None:
    assert turn(waits=False, tmp_path=tmp_path) == [("queue", 4), ("fill", 5), ("let go", 0)]


def test_without_a_plug_the_discarded_calls_see_other_inputs(tmp_path: Path) -> None:
    """So one of them can't compute ahead what the timed calls should."""
    assert turn(waits=True, tmp_path=tmp_path) == [
        ("run", 0), ("discard", 2), ("fill", 5), ("run", 4), ("discard", 0),
    ]  # fmt: skip
