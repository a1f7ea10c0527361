"""In which order a GPU's station fills memory and lets calls run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from roofsmith.domain.target import Tolerance
from roofsmith.domain.workload import Workload
from roofsmith.judge.correctness.budgets import Budgets
from roofsmith.judge.gpu.oracle import DeviceFullError
from roofsmith.judge.gpu.process import GpuSegment, Taken
from roofsmith.judge.gpu.shared import Shared
from roofsmith.judge.gpu.slots import Filled
from roofsmith.judge.gpu.station import GpuStation
from roofsmith.judge.timing.bench import SegmentPlan, SideDiedError

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

    def fill(self, slots: Sequence[int], **_: object) -> Filled:
        self._diary.note("fill", len(slots))
        return Filled(0.0, time.perf_counter())


class Worker:
    """A process whose kernel waits for the device itself, or doesn't."""

    candidate_id = "candidate"
    names_tuning = False

    def __init__(self, diary: Diary, *, waits: bool) -> None:
        self._diary, self._waits = diary, waits
        self.is_awake = False
        self.segments: list[tuple[list[int], list[int]]] = []
        """Discarded and timed slots, by segment."""
        self.deferred: list[bool] = []
        """Whether waits were put off, by run that nothing held back."""

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
        self._diary.note("begins", slot)

    def end_first_call(self, deadline_s: float) -> None:
        self._diary.note("ends", 0)

    def queue_slots(
        self, arena: int, slots: Sequence[int], *, warm: Sequence[int], deadline_s: float
    ) -> bool:
        assert self.is_awake
        self.segments.append((list(warm), list(slots)))
        self._diary.note("queue", len(slots))
        return not self._waits

    def run_queued(self, deadline_s: float) -> GpuSegment:
        self._diary.note("let go", 0)
        return SEGMENT

    def run_slots(
        self,
        arena: int,
        slots: Sequence[int],
        *,
        warm: Sequence[int],
        deadline_s: float,
        defer: bool,
        taken: Taken | None = None,
    ) -> GpuSegment:
        assert self.is_awake
        self.deferred.append(defer)
        self._diary.note("run", len(slots))
        self._diary.note("discard", len(warm))
        return SEGMENT


def shared(tmp_path: Path) -> Shared:
    """A bench without a device."""
    return Shared(Budgets(Tolerance()), "cuda", tmp_path, cast(Any, None), None, cast(Any, None))


def turn(*, waits: bool, tmp_path: Path) -> list[tuple[str, int]]:
    """Three turns of one side; what the last one did."""
    diary = Diary()
    station = GpuStation(
        cast(Any, Slots(diary)), [cast(Any, Worker(diary, waits=waits))], PLAN, shared(tmp_path)
    )
    for _ in range(2):
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


def test_only_who_waits_for_the_device_itself_waits_in_every_call(tmp_path: Path) -> None:
    """So whoever is timed beside it, without need, isn't slowed down by waits of its own."""
    diary, bench = Diary(), shared(tmp_path)
    waits, other = Worker(diary, waits=True), Worker(diary, waits=False)
    other.candidate_id = "other"
    station = GpuStation(cast(Any, Slots(diary)), cast(Any, [waits, other]), PLAN, bench)
    station._slots.scrub = station._verify = lambda *_: None  # type: ignore[assignment,method-assign]
    station.turn([0, 1], 1.0)
    assert all(waits.deferred)
    station.turn([0, 1], 1.0)
    waits.deferred.clear()
    other.deferred.clear()
    station.turn([0, 1], 1.0)
    assert waits.deferred == [False, False]
    assert other.deferred == [True, True]


@pytest.mark.parametrize(("waits", "calls"), [(False, 6), (True, 4)])
def test_the_parents_clock_counts_the_calls_that_it_saw(
    waits: bool, calls: int, tmp_path: Path
) -> None:
    """The discarded ones are let go with the others, unless nothing is held back."""
    worker = cast(Any, Worker(Diary(), waits=waits))
    station = GpuStation(cast(Any, Slots(Diary())), [worker], PLAN, shared(tmp_path))
    station.turn([0], 1.0)
    (segment,) = station.turn([0], 1.0).segments
    assert segment.wall_calls == calls
    assert segment.clock_s == SEGMENT.wall_s / calls
    assert segment.times_s == (SEGMENT.elapsed_s / PLAN.calls,)


def segments(plan: SegmentPlan, tmp_path: Path) -> list[tuple[list[int], list[int]]]:
    """Discarded and timed slots of three turns on fresh inputs."""
    worker = Worker(Diary(), waits=False)
    station = GpuStation(cast(Any, Slots(Diary())), [cast(Any, worker)], plan, shared(tmp_path))
    for _ in range(3):
        station.turn([0], 1.0)
    return worker.segments


def test_an_examination_comes_back_to_the_last_calls_slot_once(tmp_path: Path) -> None:
    """With other inputs in it, and nothing called in between that could tell."""
    plan = SegmentPlan(3, warm=2, comes_back=True)
    (_, first), (warm, second), (again, third) = segments(plan, tmp_path)
    assert (warm, second[0]) == ([], first[-1])
    assert len(set(first)) == len(set(second)) == len(set(third)) == plan.calls
    assert not set(again) & set(third)


def test_other_segments_discard_calls_on_a_slot_of_their_own(tmp_path: Path) -> None:
    for warm, timed in segments(PLAN, tmp_path):
        assert sorted({*warm, *timed}) == list(range(PLAN.slots))
        assert not set(warm) & set(timed)


class Holder:
    """A process that holds device memory until it has ended."""

    def __init__(self, device: dict[str, int], held: int) -> None:
        self._device, self._held = device, held

    def end(self) -> None:
        pass

    def close(self) -> None:
        self._device["free"] += self._held
        self._held = 0


def blamed(held: Sequence[int], tmp_path: Path) -> SideDiedError:
    """Who is at fault where the reference finds no memory while these hold so many GiB."""
    device = {"free": 0}
    bench = shared(tmp_path)
    object.__setattr__(bench, "free_bytes", lambda: device["free"])
    bench.living.extend(cast(Any, Holder(device, gib * 2**30)) for gib in held)
    with pytest.raises(SideDiedError) as caught, bench.blaming():
        raise DeviceFullError("no memory")
    return caught.value


def test_whoever_holds_the_devices_memory_is_at_fault(tmp_path: Path) -> None:
    assert blamed([70], tmp_path).side == 0
    found = blamed([2, 60], tmp_path)
    assert (found.side, found.outcome.reason) == (1, "out_of_device_memory")
    assert "it holds 64.4 GB" in found.outcome.detail


@pytest.mark.parametrize("held", [(), (0,), (0, 0)])
def test_kernels_that_hold_little_are_not(held: tuple[int, ...], tmp_path: Path) -> None:
    """A device that is full of others' memory is nobody's fault here."""
    bench = shared(tmp_path)
    object.__setattr__(bench, "free_bytes", lambda: 2**20)
    bench.living.extend(cast(Any, Holder({"free": 0}, gib)) for gib in held)
    with pytest.raises(DeviceFullError), bench.blaming():
        raise DeviceFullError("no memory")


@pytest.mark.parametrize(("tunes", "order"), [(False, "bbee"), (True, "bebe")])
def test_who_measures_its_variants_has_the_device_to_itself(
    tunes: bool, order: str, tmp_path: Path
) -> None:
    diary = Diary()
    workers = [Worker(diary, waits=False), Worker(diary, waits=False)]
    workers[1].names_tuning = tunes
    station = GpuStation(cast(Any, Slots(diary)), cast(Any, workers), PLAN, shared(tmp_path))
    station._warm_up(1.0, 3)
    kinds = [what[0] for what, _ in diary.entries if what in ("begins", "ends")]
    assert "".join(kinds) == order
