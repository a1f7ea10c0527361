"""Processes for lineups to come: how many start at once, and that none is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from roofsmith.domain.outcome import Cheated, Crashed, TimedOut
from roofsmith.domain.target import Tolerance
from roofsmith.judge.correctness.budgets import Budgets
from roofsmith.judge.gpu import shared as shared_module
from roofsmith.judge.gpu import starting
from roofsmith.judge.gpu.lineup import GpuLineup
from roofsmith.judge.gpu.shared import Shared
from roofsmith.judge.gpu.starting import MOST_AT_ONCE, Starter, start, start_one
from roofsmith.judge.sandbox.isolation import NO_ISOLATION
from roofsmith.judge.timing.bench import SideDiedError
from roofsmith.ports import KernelDiedError

GIB = 2**30


class Device:
    """Memory that processes take, and give back once they are buried."""

    def __init__(self, size_bytes: int) -> None:
        self.free = size_bytes
        self.alive: list[Worker] = []
        self.started: list[int] = []
        """How many lived when each one was started."""


class Worker:
    """A process that holds a gibibyte."""

    device: Device
    fails_after: int | None = None
    fails_beside: int | None = None
    """Beside how many others it doesn't start in time."""
    altered: str | None = None
    """Id of a kernel whose file was changed."""

    def __init__(self, built: Any, **_: object) -> None:
        if built.candidate_id == self.altered:
            raise KernelDiedError(Cheated(reason="binary_mismatch", detail="another file"))
        self.built = built
        self.ended = False
        self.is_loaded = False
        self.device.started.append(len(self.device.alive))
        self.device.alive.append(self)
        self.device.free -= GIB

    def wait_until_loaded(self) -> None:
        if self.fails_after is not None and len(self.device.started) > self.fails_after:
            raise KernelDiedError(Crashed(reason="load_failed", detail=str(self.built)))
        if self.fails_beside is not None and len(self.device.alive) > self.fails_beside:
            raise KernelDiedError(TimedOut(reason="worker_deadline", detail="late"))
        self.is_loaded = True

    def pause(self) -> None:
        mine = [worker for worker in self.device.alive if not worker.ended]
        assert all(worker.is_loaded for worker in mine), "one still stands in the driver"

    def end(self) -> None:
        self.ended = True

    def close(self) -> None:
        assert self.ended
        if self in self.device.alive:
            self.device.alive.remove(self)
            self.device.free += GIB


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Worker]]:
    class Own(Worker):
        device = Device(80 * GIB)

    monkeypatch.setattr(starting, "GpuWorkerProcess", Own)
    yield Own
    assert not Own.device.alive


def bench(worker: type[Worker], tmp_path: Path) -> Shared:
    return Shared(
        Budgets(Tolerance()), cast(Any, "cuda"), tmp_path, cast(Any, None), None, NO_ISOLATION,
        free_bytes=lambda: worker.device.free,
    )  # fmt: skip


class Kernel:
    def __init__(self, name: str) -> None:
        self.candidate_id = name
        self.names_streams = True


PAIR = cast(Any, (Kernel("old"), Kernel("new")))
FEWEST = 4


def used(starter: Starter, shared: Shared, lineups: int) -> None:
    """Take processes, and end them, as a measurement does."""
    for _ in range(lineups):
        with GpuLineup(starter.next(), shared) as lineup:
            assert [cast(Any, w).built for w in lineup.workers] == list(PAIR)
            assert not any(cast(Any, w).ended for w in lineup.workers)


def test_one_pair_is_looked_at_then_as_many_start_as_are_needed(
    worker: type[Worker], tmp_path: Path
) -> None:
    shared = bench(worker, tmp_path)
    starter = Starter(PAIR, shared, FEWEST)
    used(starter, shared, 1)
    assert len(worker.device.started) == 2
    used(starter, shared, FEWEST - 1)
    assert len(worker.device.started) == 2 * FEWEST
    assert not shared.ahead
    used(starter, shared, 1)  # undecided: as many again
    assert len(worker.device.started) == 4 * FEWEST
    starter.close()
    again = Starter(PAIR, shared, FEWEST)
    used(again, shared, FEWEST)
    assert len(worker.device.started) == 6 * FEWEST
    again.close()
    shared.bury()


def test_who_was_seen_alone_needs_no_second_look(worker: type[Worker], tmp_path: Path) -> None:
    """Both were examined: what the pair holds is known before its first set."""
    shared = bench(worker, tmp_path)
    for built in PAIR:
        shared.end(start_one([built], shared))
    assert shared.footprint(PAIR) == 2 * GIB
    starter = Starter(PAIR, shared, FEWEST)
    used(starter, shared, 1)
    assert len(worker.device.started) == 2 + 2 * FEWEST
    starter.close()
    shared.bury()


def test_never_more_than_there_may_be(worker: type[Worker], tmp_path: Path) -> None:
    shared = bench(worker, tmp_path)
    starter = Starter(PAIR, shared, 100)
    used(starter, shared, 2)
    assert len(worker.device.started) == 2 * MOST_AT_ONCE
    starter.close()
    shared.bury()


def test_a_small_device_holds_one_pair_at_a_time(worker: type[Worker], tmp_path: Path) -> None:
    worker.device.free = 12 * GIB
    shared = bench(worker, tmp_path)
    starter = Starter(PAIR, shared, FEWEST)
    used(starter, shared, 3)
    assert len(worker.device.started) == 6
    shared.bury()


def test_other_kernels_have_another_footprint(worker: type[Worker], tmp_path: Path) -> None:
    shared = bench(worker, tmp_path)
    used(Starter(PAIR, shared, FEWEST), shared, 1)
    starter = Starter(cast(Any, (Kernel("new"),)), shared, FEWEST)
    with GpuLineup(starter.next(), shared):
        assert len(worker.device.started) == 3
    shared.bury()


def test_whoever_fails_takes_all_that_were_started_along(
    worker: type[Worker], tmp_path: Path
) -> None:
    shared = bench(worker, tmp_path)
    starter = Starter(PAIR, shared, FEWEST)
    used(starter, shared, 1)
    worker.fails_after = 2
    with pytest.raises(SideDiedError) as caught:
        starter.next()
    assert (caught.value.side, caught.value.outcome.reason) == (0, "load_failed")
    assert all(w.ended for w in worker.device.alive)
    starter.close()
    shared.bury()


@pytest.mark.parametrize(("altered", "side"), [("old", 0), ("new", 1)])
def test_whose_file_was_changed_is_at_fault(
    worker: type[Worker], tmp_path: Path, altered: str, side: int
) -> None:
    """Which is seen before its process is started, and before anybody else's is loaded."""
    shared = bench(worker, tmp_path)
    worker.altered = altered
    with pytest.raises(SideDiedError) as caught:
        start(PAIR, 1, shared)
    assert (caught.value.side, caught.value.outcome.reason) == (side, "binary_mismatch")
    shared.bury()


def test_who_is_late_among_others_may_start_alone(worker: type[Worker], tmp_path: Path) -> None:
    """A machine that is busy with our own processes says nothing of a kernel."""
    shared = bench(worker, tmp_path)
    starter = Starter(PAIR, shared, FEWEST)
    used(starter, shared, 1)
    worker.fails_beside = 2
    used(starter, shared, 3)
    assert len(worker.device.started) == 2 + 2 * (FEWEST - 1) + 2 * 3
    worker.fails_beside = 0
    with pytest.raises(SideDiedError) as caught:
        starter.next()
    assert (caught.value.side, caught.value.outcome.reason) == (0, "worker_deadline")
    shared.bury()


def test_a_lineup_beside_another_leaves_it_among_the_living(
    worker: type[Worker], tmp_path: Path
) -> None:
    shared = bench(worker, tmp_path)
    with GpuLineup(start(PAIR, 1, shared)[0], shared) as outer:
        with GpuLineup(start(PAIR[:1], 1, shared)[0], shared):
            assert len(shared.living) == 3
        assert shared.living == outer.workers
    assert not shared.living
    shared.bury()


def test_what_works_on_in_lineups_to_come_is_found_too(
    worker: type[Worker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that starts work on the device when it is loaded does so in all its processes."""
    monkeypatch.setattr(shared_module, "BUSY_LOOK_S", 0.0)

    def is_at_work() -> bool:
        return any(one.built.candidate_id == "new" for one in worker.device.alive)

    shared = replace(bench(worker, tmp_path), is_at_work=is_at_work)
    starter = Starter(PAIR, shared, FEWEST)
    used(starter, shared, 1)
    with GpuLineup(starter.next(), shared) as lineup:
        assert shared.ahead
        with pytest.raises(SideDiedError) as caught:
            shared.require_idle(lineup.workers)
    assert (caught.value.side, caught.value.outcome.reason) == (1, "leftover_work")
    starter.close()
    shared.bury()


def test_who_holds_the_memory_is_asked_when_nothing_waits(
    worker: type[Worker], tmp_path: Path
) -> None:
    shared = bench(worker, tmp_path)
    starter = Starter(PAIR, shared, FEWEST)
    used(starter, shared, 1)
    with GpuLineup(starter.next(), shared):
        assert len(shared.ahead) == FEWEST - 2
        assert shared._held_bytes() == [GIB, GIB]
        assert not shared.ahead
    starter.close()
    shared.bury()
