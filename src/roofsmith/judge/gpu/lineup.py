"""One process per kernel on a GPU, taking turns on the same memory with the same fresh inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from roofsmith.analysis.clock import CLOCK_ERROR_RATE
from roofsmith.analysis.statistics import least_observations
from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.health import Health
from roofsmith.domain.kernel import Built
from roofsmith.domain.modes import TimingMode
from roofsmith.domain.target import Tolerance
from roofsmith.domain.workload import Workload
from roofsmith.judge.correctness.budgets import Budgets, Finding
from roofsmith.judge.gpu.driver import Api
from roofsmith.judge.gpu.forking import ForkServer
from roofsmith.judge.gpu.layout import lay_out
from roofsmith.judge.gpu.oracle import DeviceFullError, GpuOracle
from roofsmith.judge.gpu.queued_calls import Holding
from roofsmith.judge.gpu.shared import Shared
from roofsmith.judge.gpu.slots import Slots
from roofsmith.judge.gpu.starting import Starter, Workers, start_one
from roofsmith.judge.gpu.station import GpuStation
from roofsmith.judge.sandbox.isolation import Isolation, isolate
from roofsmith.judge.timing.bench import MAX_CLOCK_CALLS, SegmentPlan, stretched

SEGMENT_S = 1e-3
"""Work behind one pair of events. On an H100, segments of this length differ by 0.2%, and the
median of fifty by 0.03 to 0.09%; longer ones gain little."""
MAX_CALLS = 192
"""Every call has inputs of its own, which are drawn and verified one by one."""
MAX_ARENA_BYTES = 12 * 1024**3
ARENAS_SHARE = 0.3
"""Of the memory of a judgement that the arenas of all its workloads may take: what is drawn for
them takes as much again, and so do their drafts."""
DISCARDED_CALLS = 3
"""After every switch of sides: the first call after 10 ms of idleness took up to four times as long
as the others on an H100."""
LONG_S = 5e-3
"""Calls longer than this wake the device by themselves: one is discarded."""
SWEEPS_PER_INSTANCE = 2
"""Two processes with the same kernel differ, and more samples of them don't tell: so there are
many processes, and their differences are part of the interval. The fewest pairs that can keep a
change, 9 at the usual error rate, are then of five sets of processes; with three sweeps they would
be of three, one too few for the interval to be widened by (`analysis/instances.py`)."""


class GpuLineup:
    """Fresh processes for a set of kernels."""

    def __init__(self, workers: Workers, bench: Shared) -> None:
        self._shared = bench
        self.workers = workers
        bench.living.extend(workers)

    def __enter__(self) -> GpuLineup:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes; the next ones start while these give their memory back."""
        self._shared.end(self.workers)
        for worker in self.workers:  # another lineup may be up beside this one
            self._shared.living.remove(worker)
        self.workers = []

    def station(self, inputs: Slots, plan: SegmentPlan) -> GpuStation:
        """Set a workload up.

        Raises:
            SideDiedError: a side can't map its memory.
        """
        return GpuStation(inputs, self.workers, plan, self._shared)


class GpuBench:
    """Port `Bench` on a GPU."""

    clock_sweeps_per_instance = 6
    """More than of the others: what this clock is held against came from many processes already."""
    near_workloads = 1
    """A Python kernel is compiled anew for every other workload."""
    examination = SegmentPlan(3, warm=2, comes_back=True)
    first_deadline_s = 120.0
    """Triton's autotuner compiles and times all its configurations in a first call."""

    def __init__(
        self,
        oracle: GpuOracle,
        tolerance: Tolerance,
        fork_server: ForkServer,
        *,
        api: Api,
        cache_dir: Path,
        health: Callable[[], Health | None] | None = None,
        sweeps_per_instance: int = SWEEPS_PER_INSTANCE,
        timing: TimingMode = "kernel",
        isolation: Isolation | None = None,
    ) -> None:
        """Nothing starts yet.

        Args:
            oracle: owns the memory.
            tolerance: of the target.
            fork_server: starts workers for modules.
            api: of the device's driver.
            cache_dir: holds a compilation cache per candidate.
            health: reads the device's sensors, in well under a millisecond but for a few
                times a second, when it takes some 10 ms to count processes and memory.
            sweeps_per_instance: processes are replaced after so many sweeps.
            timing: the device's time, or that of calls as the host launches them.
            isolation: the walls around kernels; None: all that the host grants.
        """
        self._oracle = oracle
        self.sweeps_per_instance = sweeps_per_instance
        self.isolation = isolation or isolate("standard")
        self._shared = Shared(
            Budgets(tolerance), api, cache_dir, fork_server, health, self.isolation,
            holding=Holding(timing == "kernel"), free_bytes=oracle.free_bytes,
            is_at_work=oracle.is_at_work,
        )  # fmt: skip

    def __enter__(self) -> GpuBench:
        return self

    def __exit__(self, *exception: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Wait until no kernel's process is left on the GPU."""
        self._shared.dismiss()
        self._shared.bury()

    def inputs(self, workload: Workload, slots: int) -> AbstractContextManager[Slots]:
        """Slots in device memory.

        Raises:
            SideDiedError: a kernel that is up holds so much that there is no room for them.
        """
        with self._shared.blaming():
            try:
                return self._oracle.slots(workload, slots)
            except DeviceFullError:
                self._shared.bury()  # who is ending still holds memory
                return self._oracle.slots(workload, slots)

    def foresee(self, workload: Workload, distributions: Sequence[str], *, timed: bool) -> None:
        """Nothing: the device draws in no time."""

    def plan(self, workload: Workload, time_s: float) -> SegmentPlan:
        return self._planned(workload, time_s, None)

    def clock_plan(
        self, workload: Workload, times: Sequence[float], segment_s: float
    ) -> SegmentPlan:
        return self._planned(workload, max(times), stretched(segment_s, times))

    def _planned(self, workload: Workload, time_s: float, clock_s: float | None) -> SegmentPlan:
        segment_s, most = (SEGMENT_S, MAX_CALLS) if clock_s is None else (clock_s, MAX_CLOCK_CALLS)
        slot_bytes = lay_out(self._oracle.describe(workload).arrays).slot_bytes
        share = ARENAS_SHARE * self._oracle.memory_bytes / len(self._oracle.target.workloads)
        room = int(min(MAX_ARENA_BYTES, share)) // slot_bytes - 1
        calls = max(1, min(round(segment_s / max(time_s, 1e-9)), most, room))
        warm = 1 if time_s > LONG_S else DISCARDED_CALLS
        return SegmentPlan(calls, warm, by_clock=clock_s is not None, about_s=calls * time_s)

    def lineup(self, kernels: Sequence[Built]) -> GpuLineup:
        """Start a process per kernel.

        Raises:
            SideDiedError: one can't be loaded.
        """
        return GpuLineup(start_one(kernels, self._shared), self._shared)

    @contextlib.contextmanager
    def lineups(
        self, kernels: Sequence[Built], *, by_clock: bool = False
    ) -> Iterator[Callable[[], GpuLineup]]:
        sweeps = self.clock_sweeps_per_instance if by_clock else self.sweeps_per_instance
        rate = CLOCK_ERROR_RATE if by_clock else self._oracle.target.keep.error_rate
        fewest = -(-least_observations(rate) // sweeps)
        with contextlib.closing(Starter(kernels, self._shared, fewest)) as starter:
            yield lambda: GpuLineup(starter.next(), self._shared)

    def reports(self, workload: Workload, found: Sequence[Finding]) -> tuple[ErrorReport, ...]:
        return self._shared.budgets.reports(workload.label, found)
