"""One process per kernel, taking turns on the same fresh inputs."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from roofsmith.analysis.clock import MESSAGES_S
from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Failure
from roofsmith.domain.target import Tolerance
from roofsmith.domain.workload import Workload
from roofsmith.judge.arena import Arena, lay_out
from roofsmith.judge.bench import (
    MAX_CLOCK_CALLS,
    SegmentPlan,
    SideDiedError,
    Turn,
    random_order,
    stretched,
)
from roofsmith.judge.budgets import Finding
from roofsmith.judge.checking import Checker
from roofsmith.judge.draws import Draws
from roofsmith.judge.isolation import Isolation, isolate
from roofsmith.judge.oracle import ReferenceOracle
from roofsmith.judge.process import WorkerProcess
from roofsmith.judge.reach import beside
from roofsmith.judge.segment import Segment
from roofsmith.ports import KernelDiedError

SEGMENT_S = 2e-3
"""Timed calls are put together until a segment takes about this long: the parent's own clock and
the scheduler's waiting times mean little on anything shorter."""
WARM_S = 5e-3
"""Calls shorter than this get one discarded call after every switch of sides, which wakes thread
pools and refills caches and predictors; longer ones don't notice."""
LONGEST_CLOCK_S = 10e-3
"""Of a segment for the parent's own clock: drawing inputs for longer ones would take most of a
judgement. Messages, which cost up to `MESSAGES_S`, draw its ratio towards 1."""
MAX_CALLS = 32
MAX_SEGMENT_BYTES = 512 * 1024**2
"""Most memory that the slots of one segment may take, on either side."""

SETTLING_FACTOR = 2
"""Multiple of the last-level cache that is read after staging what doesn't fit it: caches don't
replace strictly the oldest line."""
UNKNOWN_CACHE_BYTES = 32 * 1024**2
"""Of the last level, where the machine doesn't tell: a common size of servers."""

MAX_WAIT_SHARE = 0.02
"""A segment whose threads waited for a processor longer than `MESSAGES_S` and this share of it is
void: another process ran in their place."""


def plan_segment(time_s: float, slot_bytes: int, *, clock_s: float | None = None) -> SegmentPlan:
    """Enough calls of a kernel that takes `time_s` on slots of `slot_bytes`.

    Args:
        time_s: of one call.
        slot_bytes: of its arrays.
        clock_s: length of a segment for the parent's own clock; None: an ordinary one.
    """
    segment_s, most = (SEGMENT_S, MAX_CALLS) if clock_s is None else (clock_s, MAX_CLOCK_CALLS)
    fitting = max(MAX_SEGMENT_BYTES // slot_bytes - 1, 1)
    calls = max(1, min(round(segment_s / max(time_s, 1e-9)), most, fitting))
    return SegmentPlan(calls, warm=int(time_s < WARM_S), by_clock=clock_s is not None)


class HostStation:
    """One workload of a lineup: the draws, and an arena per side."""

    def __init__(
        self,
        draws: Draws,
        workers: Sequence[WorkerProcess],
        plan: SegmentPlan,
        checker: Checker,
        cache_bytes: int,
    ) -> None:
        self.draws = draws
        self._checker = checker
        self._cache_bytes = cache_bytes
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
        self._timed: list[int] = []
        """Slots of the last segments, in the order of their calls; the same for all sides."""
        self._spare: int | None = None
        """The slot of the discarded call."""
        self._bystander = bytearray()

    @property
    def workload(self) -> Workload:
        """The workload."""
        return self.draws.workload

    def asides(self, deadline_s: float) -> None:
        """Nothing: a call is a call here, and hot data would be another workload."""

    def examine(self) -> Finding:
        """The first side's outputs of the last turn's first call, against float64."""
        return self._checker.check(self.draws, self.arenas[0], self._timed[0])

    def spot_check(self) -> tuple[int, Failure] | None:
        """The first side with a wrong output among the calls just timed, and what is wrong."""
        if not self._checker.knows(self.draws):
            self._checker.learn(self.draws, self._timed[0])
        for slot in self._timed:
            self.draws.expect(slot, exact=False)
            for side, arena in enumerate(self.arenas):
                failure = self._checker.spot_check(self.draws, arena, slot).failure
                if failure is not None:
                    return side, failure
        return None

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
        """New inputs, in slots whose order nobody can predict.

        So a kernel that goes by addresses or counts calls is wrong, never lucky. The discarded call
        has a slot that another call had before, with what was drawn for it then.
        """
        is_first = not self._timed
        order = random_order(self.plan.slots)
        self._spare = order.pop() if self.plan.warm else None
        self._timed = order
        first = [self._spare] if self._spare is not None and is_first else []
        for slot in (*first, *order):
            self.draws.draw(slot, secrets.randbits(31))

    def _prepare(self, arena: Arena, slots: Sequence[int]) -> None:
        """Pristine inputs, poisoned outputs, and guard bands unlike the last ones."""
        for slot in slots:
            arena.prepare(slot, self.draws.given(slot), self.draws.guard())

    def _run(self, side: int, deadline_s: float) -> Segment:
        worker, arena, number = self._workers[side], self.arenas[side], self._numbers[side]
        timed = self._timed
        if self._spare is not None:
            self._prepare(arena, [self._spare])
            with worker.awake():
                worker.stage(number, arena, [self._spare])
                worker.run(number, [self._arguments(arena, self._spare)], deadline_s)
        # Nothing of the timed slots is in the worker's memory while the discarded call runs.
        self._prepare(arena, timed)
        calls = [self._arguments(arena, slot) for slot in timed]
        limit_s = deadline_s * len(calls)
        settled_bytes = 0
        if len(timed) * arena.layout.slot_bytes > self._cache_bytes:
            settled_bytes = SETTLING_FACTOR * self._cache_bytes
        if self.plan.by_clock and worker.is_reachable:
            with beside(worker.pid):
                worker.put(number, arena, timed)
                self._settle(settled_bytes)
            segment = worker.run_at_once(number, calls, limit_s)
            worker.take(number, arena, timed)
            return segment
        with worker.awake():
            worker.stage(number, arena, timed)
            if settled_bytes:
                worker.settle(settled_bytes)
            segment = worker.run(number, calls, limit_s)
            begin = time.perf_counter()
            worker.collect(number, arena, timed)
            if self.plan.by_clock:
                # What `solve` left to threads of its own must be done by the time it is collected:
                # all but what collecting takes is the kernel's.
                collected = time.perf_counter()
                worker.collect(number, arena, timed)
                late_s = (collected - begin) - (time.perf_counter() - collected)
                segment = replace(segment, wall_s=segment.wall_s + max(late_s, 0.0))
        return segment

    def _settle(self, size_bytes: int) -> None:
        """As the worker's, where it was this process that wrote what was put."""
        if len(self._bystander) < size_bytes:
            self._bystander = bytearray(b"\1") * size_bytes
        self._bystander.find(0, 0, size_bytes)

    def _arguments(self, arena: Arena, slot: int) -> list[int]:
        arrays = iter(self.draws.arrays)
        scalars = iter(self.draws.description.sizes.values())
        return [
            next(scalars) if parameter.role == "size" else arena.offset(slot, next(arrays).name)
            for parameter in self.draws.signature.parameters
        ]


class HostLineup:
    """Fresh processes for a set of kernels."""

    def __init__(
        self,
        kernels: Sequence[Built],
        threads: int,
        checker: Checker,
        cache_bytes: int,
        isolation: Isolation,
    ) -> None:
        """Start them all.

        Raises:
            SideDiedError: a library can't be loaded.
        """
        self._checker = checker
        self._cache_bytes = cache_bytes
        self.workers: list[WorkerProcess] = []
        self._stations: list[HostStation] = []
        for side, built in enumerate(kernels):
            try:
                worker = WorkerProcess(built, threads=threads, isolation=isolation)
                self.workers.append(worker)
                worker.pause()
            except KernelDiedError as error:
                self.close()
                raise SideDiedError(side, error.outcome) from error

    def __enter__(self) -> HostLineup:
        """The processes are up already."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End them."""
        self.close()

    def close(self) -> None:
        """End the processes and give back their memory."""
        for worker in self.workers:
            worker.end()
        for worker in self.workers:
            worker.close()
        for station in self._stations:
            station.close()

    def station(self, draws: Draws, plan: SegmentPlan) -> HostStation:
        """Set a workload up.

        Raises:
            SideDiedError: a side has no memory for it.
        """
        try:
            made = HostStation(draws, self.workers, plan, self._checker, self._cache_bytes)
        except KernelDiedError as error:
            raise SideDiedError(len(self.workers) - 1, error.outcome) from error
        self._stations.append(made)
        return made


class HostBench:
    """Port `Bench` on the host's processors."""

    sweeps_per_instance = 6
    """Where a process's memory and code happen to lie makes it faster or slower for its whole life,
    and more samples of it don't tell."""
    clock_sweeps_per_instance = 6
    near_workloads = 3
    examination = SegmentPlan(1, warm=0)
    first_deadline_s = 60.0

    def __init__(
        self,
        oracle: ReferenceOracle,
        tolerance: Tolerance,
        threads: int,
        cache_bytes: int | None = None,
        isolation: Isolation | None = None,
    ) -> None:
        """Nothing starts yet.

        Args:
            oracle: draws and expects.
            tolerance: of the target.
            threads: that kernels may use.
            cache_bytes: of the last level; None if it isn't known.
            isolation: the walls around kernels; None: all that the host grants.
        """
        self.isolation = isolation or isolate("standard")
        self._oracle = oracle
        self._threads = threads
        self._cache_bytes = cache_bytes or UNKNOWN_CACHE_BYTES
        self._checker = Checker(tolerance)

    def inputs(self, workload: Workload, slots: int) -> AbstractContextManager[Draws]:
        """Slots of fresh inputs."""
        return self._oracle.draws(workload, slots)

    def plan(self, workload: Workload, time_s: float) -> SegmentPlan:
        """Segments of a kernel that takes about `time_s`."""
        return plan_segment(time_s, self._slot_bytes(workload))

    def clock_plan(
        self, workload: Workload, times: Sequence[float], segment_s: float
    ) -> SegmentPlan:
        """Segments of such kernels for the parent's own clock."""
        clock_s = stretched(min(segment_s, LONGEST_CLOCK_S), times)
        return plan_segment(max(times), self._slot_bytes(workload), clock_s=clock_s)

    def lineup(self, kernels: Sequence[Built]) -> HostLineup:
        """Start a process per kernel.

        Raises:
            SideDiedError: a library can't be loaded.
        """
        return HostLineup(kernels, self._threads, self._checker, self._cache_bytes, self.isolation)

    @contextlib.contextmanager
    def lineups(
        self,
        kernels: Sequence[Built],
        *,
        by_clock: bool = False,  # noqa: ARG002
    ) -> Iterator[Callable[[], HostLineup]]:
        """Lineups of the same kernels, as often as they are asked for."""
        yield lambda: self.lineup(kernels)

    def reports(self, workload: Workload, found: Sequence[Finding]) -> tuple[ErrorReport, ...]:
        """Worst errors of several findings, beside their budgets."""
        return self._checker.budgets.reports(workload.label, found)

    def _slot_bytes(self, workload: Workload) -> int:
        return lay_out(self._oracle.describe(workload).arrays).slot_bytes


def _void(segment: Segment) -> str | None:
    if segment.waited_s > MESSAGES_S + MAX_WAIT_SHARE * segment.wall_s:
        share = segment.waited_s / segment.wall_s
        return f"threads waited for a processor for {share:.0%} of the segment"
    claimed = sum(segment.times_s)
    if claimed > segment.wall_s:
        return (
            f"the worker's clock says {claimed * 1e3:.3f} ms,"
            f" the parent's {segment.wall_s * 1e3:.3f} ms"
        )
    return None
