"""One process per kernel, taking turns on the same fresh inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.kernel import Built
from roofsmith.domain.target import Tolerance
from roofsmith.domain.workload import Workload
from roofsmith.judge.correctness.budgets import Finding
from roofsmith.judge.correctness.checking import Checker
from roofsmith.judge.correctness.distributions import OWN
from roofsmith.judge.host.arena import lay_out
from roofsmith.judge.host.draws import Draws
from roofsmith.judge.host.oracle import ReferenceOracle
from roofsmith.judge.host.process import WorkerProcess
from roofsmith.judge.host.station import HostStation
from roofsmith.judge.sandbox.isolation import Isolation, isolate
from roofsmith.judge.timing.bench import (
    MAX_CLOCK_CALLS,
    SegmentPlan,
    SideDiedError,
    blaming,
    stretched,
)
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

UNKNOWN_CACHE_BYTES = 32 * 1024**2
"""Of the last level, where the machine doesn't tell: a common size of servers."""


def plan_segment(time_s: float, slot_bytes: int, *, clock_s: float | None = None) -> SegmentPlan:
    """Enough calls of a kernel that takes `time_s` on slots of `slot_bytes`.

    Args:
        time_s: of one call.
        slot_bytes: of its arrays.
        clock_s: length of a segment for the parent's own clock; None: an ordinary one.
    """
    segment_s, most = (SEGMENT_S, MAX_CALLS) if clock_s is None else (clock_s, MAX_CLOCK_CALLS)
    fitting = max(MAX_SEGMENT_BYTES // slot_bytes - 2, 1)
    calls = max(1, min(round(segment_s / max(time_s, 1e-9)), most, fitting))
    warm, idle = int(time_s < WARM_S), int(calls > 1)
    return SegmentPlan(calls, warm, idle, by_clock=clock_s is not None)


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
        """Start them all, side by side; none is stopped before all are loaded.

        Raises:
            SideDiedError: a library can't be loaded.
        """
        self._checker = checker
        self._cache_bytes = cache_bytes
        self.workers: list[WorkerProcess] = []
        self._stations: list[HostStation] = []
        try:
            for side, built in enumerate(kernels):
                with blaming(side):
                    worker = WorkerProcess(built, threads=threads, isolation=isolation)
                self.workers.append(worker)
            for step in (WorkerProcess.wait_until_loaded, WorkerProcess.pause):
                for side, worker in enumerate(self.workers):
                    with blaming(side):
                        step(worker)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> HostLineup:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
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
    examination = SegmentPlan(1, warm=0, examines=True)
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
        return self._oracle.draws(workload, slots)

    def foresee(self, workload: Workload, distributions: Sequence[str], *, timed: bool) -> None:
        """Have the reference work ahead, as long as there is memory for it."""
        self._oracle.keep(workload, distributions)
        with self._oracle.draws(workload, 1) as draws:
            borne = [name for name in distributions if name == OWN or name in draws.tolerated]
            draws.foresee(borne, "declared" if timed else "honest", soon=False)

    def plan(self, workload: Workload, time_s: float) -> SegmentPlan:
        return plan_segment(time_s, self._slot_bytes(workload))

    def clock_plan(
        self, workload: Workload, times: Sequence[float], segment_s: float
    ) -> SegmentPlan:
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
        yield lambda: self.lineup(kernels)

    def reports(self, workload: Workload, found: Sequence[Finding]) -> tuple[ErrorReport, ...]:
        return self._checker.budgets.reports(workload.label, found)

    def _slot_bytes(self, workload: Workload) -> int:
        return lay_out(self._oracle.describe(workload).arrays).slot_bytes
