"""One process per kernel, taking turns on the same fresh inputs."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Failure
from roofsmith.judge.arena import Arena
from roofsmith.judge.oracle import Draws
from roofsmith.judge.process import Segment, WorkerProcess
from roofsmith.ports import KernelDiedError

SEGMENT_S = 2e-3
"""Timed calls are put together until a segment takes about this long: the parent's own clock and
the scheduler's waiting times mean little on anything shorter."""
WARM_S = 5e-3
"""Calls shorter than this get one discarded call after every switch of sides, which wakes thread
pools and refills caches and predictors; longer ones don't notice."""
MAX_CALLS = 32
MAX_SEGMENT_BYTES = 512 * 1024**2
"""Most memory that the slots of one segment may take, on either side."""

WAKING_S = 7e-4
"""What being woken by a message costs a worker's main thread, outside the calls: up to 0.55 ms was
seen on two processors, with calls as fast as without it."""
MAX_WAIT_SHARE = 0.02
"""A segment whose threads waited for a processor longer than `WAKING_S` and this share of it is
void: another process ran in their place."""
CLOCK_SLACK_S = 2e-3
CLOCK_SLACK_SHARE = 0.2
"""How far the parent's wall clock may exceed what the worker claims: messages and loop overhead."""


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """How many calls make a segment."""

    calls: int
    warm: bool
    """Whether a discarded call on other inputs comes first."""

    @property
    def slots(self) -> int:
        """Slots that a segment needs."""
        return self.calls + self.warm


def plan_segment(time_s: float, slot_bytes: int) -> SegmentPlan:
    """Enough calls of a kernel that takes `time_s` on slots of `slot_bytes`."""
    fitting = max(MAX_SEGMENT_BYTES // slot_bytes - 1, 1)
    calls = max(1, min(round(SEGMENT_S / max(time_s, 1e-9)), MAX_CALLS, fitting))
    return SegmentPlan(calls, warm=time_s < WARM_S)


@dataclass(frozen=True, slots=True)
class Turn:
    """Both sides' segments on one set of inputs."""

    order: tuple[int, ...]
    """Sides in the order they ran."""
    segments: tuple[Segment, ...]
    """Timed calls only, by side."""
    void: str | None
    """Why the turn says nothing about the kernels."""


class Station:
    """One workload of a lineup: the draws, and an arena per side."""

    def __init__(self, draws: Draws, workers: Sequence[WorkerProcess], plan: SegmentPlan) -> None:
        self.draws = draws
        self.plan = plan
        self.arenas: list[Arena] = []
        self._numbers: list[int] = []
        try:
            for worker in workers:
                arena = Arena(draws.arrays, plan.slots)
                self.arenas.append(arena)
                with worker.awake():
                    self._numbers.append(worker.map(arena))
        except BaseException:
            self.close()
            raise
        self._workers = workers
        self._warm_is_drawn = False

    def close(self) -> None:
        """Give the arenas back."""
        for arena in self.arenas:
            arena.close()

    def turn(self, order: Sequence[int], deadline_s: float, *, fresh: bool = True) -> Turn:
        """Draw fresh inputs and run every side on them, in this order.

        Args:
            order: of the sides.
            deadline_s: for one call.
            fresh: False runs on the inputs of the turn before.

        Raises:
            SideDiedError: a side crashed or ran past its deadline.
        """
        if fresh:
            self._draw()
        segments: dict[int, Segment] = {}
        with self.draws.asleep():
            for side in order:
                try:
                    segments[side] = self._run(side, deadline_s)
                except KernelDiedError as error:
                    raise SideDiedError(side, error.outcome) from error
        in_order = tuple(segments[side] for side in range(len(self._workers)))
        return Turn(tuple(order), in_order, next(filter(None, map(_void, in_order)), None))

    def _draw(self) -> None:
        slots = range(self.plan.slots if not self._warm_is_drawn else self.plan.calls)
        for slot in slots:
            given = self.draws.draw(slot, secrets.randbits(31))
            for arena in self.arenas:
                arena.prepare(slot, given)
        self._warm_is_drawn = True

    def _run(self, side: int, deadline_s: float) -> Segment:
        worker, arena, number = self._workers[side], self.arenas[side], self._numbers[side]
        warm_slot = self.plan.calls
        timed = list(range(self.plan.calls))
        with worker.awake():
            # The timed slots are not in the worker's memory yet while the discarded call runs.
            if self.plan.warm:
                worker.stage(number, arena, [warm_slot])
                worker.run(number, [self._arguments(arena, warm_slot)], deadline_s)
            worker.stage(number, arena, timed)
            calls = [self._arguments(arena, slot) for slot in timed]
            segment = worker.run(number, calls, deadline_s * len(calls))
            worker.collect(number, arena, timed)
        return segment

    def _arguments(self, arena: Arena, slot: int) -> list[int]:
        arrays = iter(self.draws.arrays)
        scalars = iter(self.draws.description.scalars.values())
        return [
            next(scalars) if parameter.role == "size" else arena.offset(slot, next(arrays).name)
            for parameter in self.draws.signature.parameters
        ]


class SideDiedError(Exception):
    """A kernel died during a turn."""

    def __init__(self, side: int, outcome: Failure) -> None:
        super().__init__(outcome.detail)
        self.side = side
        self.outcome = outcome


class Lineup:
    """Fresh processes for a set of kernels."""

    def __init__(self, kernels: Sequence[Built], threads: int) -> None:
        """Start them all.

        Raises:
            SideDiedError: a library can't be loaded.
        """
        self.workers: list[WorkerProcess] = []
        self._stations: list[Station] = []
        for side, built in enumerate(kernels):
            try:
                worker = WorkerProcess(built, threads=threads)
            except KernelDiedError as error:
                self.close()
                raise SideDiedError(side, error.outcome) from error
            worker.pause()
            self.workers.append(worker)

    def __enter__(self) -> Lineup:
        """The processes are up already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End them."""
        self.close()

    def close(self) -> None:
        """End the processes and give back their memory."""
        for worker in self.workers:
            worker.close()
        for station in self._stations:
            station.close()

    def station(self, draws: Draws, plan: SegmentPlan) -> Station:
        """Set a workload up.

        Raises:
            SideDiedError: a side has no memory for it.
        """
        try:
            made = Station(draws, self.workers, plan)
        except KernelDiedError as error:
            raise SideDiedError(len(self.workers) - 1, error.outcome) from error
        self._stations.append(made)
        return made


def random_order(sides: int) -> list[int]:
    """All sides, in an order that nobody can predict."""
    order = list(range(sides))
    secrets.SystemRandom().shuffle(order)
    return order


def _void(segment: Segment) -> str | None:
    if segment.waited_s > WAKING_S + MAX_WAIT_SHARE * segment.wall_s:
        share = segment.waited_s / segment.wall_s
        return f"threads waited for a processor for {share:.0%} of the segment"
    claimed = sum(segment.times_s)
    if claimed > segment.wall_s or (
        segment.wall_s - claimed > CLOCK_SLACK_S + CLOCK_SLACK_SHARE * segment.wall_s
    ):
        return (
            f"the worker's clock says {claimed * 1e3:.3f} ms,"
            f" the parent's {segment.wall_s * 1e3:.3f} ms"
        )
    return None
