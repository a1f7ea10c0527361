"""One process per kernel on a GPU, taking turns on the same memory with the same fresh inputs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.health import Health
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Failure
from roofsmith.domain.target import TimingMode, Tolerance
from roofsmith.domain.workload import Workload
from roofsmith.judge.bench import (
    CLOCK_S,
    MAX_CLOCK_CALLS,
    Asides,
    SegmentPlan,
    SideDiedError,
    Turn,
    random_cycle,
    random_order,
)
from roofsmith.judge.budgets import Budgets, Finding
from roofsmith.judge.gpu.driver import Api
from roofsmith.judge.gpu.forking import ForkServer
from roofsmith.judge.gpu.layout import lay_out
from roofsmith.judge.gpu.oracle import GpuOracle, Slots
from roofsmith.judge.gpu.process import GpuSegment, GpuWorkerProcess, server_environment
from roofsmith.judge.gpu.reasons import attributed
from roofsmith.judge.isolation import Isolation, isolate
from roofsmith.judge.process import Segment
from roofsmith.ports import KernelDiedError

SEGMENT_S = 1e-3
"""Work behind one pair of events. On an H100, segments of this length differ by 0.2%, and the
median of fifty by 0.03 to 0.09%; longer ones gain little."""
MAX_CALLS = 192
"""Every call has inputs of its own, which are drawn and verified one by one."""
MAX_ARENA_BYTES = 12 * 1024**3
DISCARDED_CALLS = 3
"""After every switch of sides: the first call after 10 ms of idleness took up to four times as long
as the others on an H100."""
CHECKED_BY_CLOCK = 32
"""Calls of a long segment that are verified, chosen once all have run."""
LONG_S = 5e-3
"""Calls longer than this wake the device by themselves: one is discarded."""
ASIDE_SEGMENTS = 5
"""For the medians of times that nothing is decided on."""
SWEEPS_PER_INSTANCE = 2
"""Two processes with the same kernel differ, and more samples of them don't tell: so there are
many processes, and their differences are part of the interval."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What all lineups of a bench share."""

    budgets: Budgets
    api: Api
    cache_dir: Path
    fork_server: ForkServer
    read_health: Callable[[], Health | None] | None
    isolation: Isolation
    first_call_s: float = 0.0
    """Least deadline of the first call in a process."""
    holds: bool = True
    """Whether calls are queued before any may start: what is timed is the device, not the host."""
    waiting: set[str] = field(default_factory=set)
    """Labels of workloads on which a kernel was seen to wait for the device itself."""

    ending: list[GpuWorkerProcess] = field(default_factory=list)
    """Killed, but perhaps not gone yet."""

    def bury(self) -> None:
        """Wait until nothing is left of processes that were ended."""
        while self.ending:
            self.ending.pop().close()

    def health(self) -> Health | None:
        """The device's sensors, if anybody reads them."""
        return self.read_health() if self.read_health is not None else None


class GpuStation:
    """One workload of a lineup. Both sides work on the same device memory, one after the other."""

    def __init__(
        self,
        slots: Slots,
        workers: Sequence[GpuWorkerProcess],
        plan: SegmentPlan,
        bench: Shared,
    ) -> None:
        self.plan = plan
        self._slots = slots
        self._workers = workers
        self._shared = bench
        self._budgets = bench.budgets
        self._wrong: tuple[int, Failure] | None = None
        self._timed: list[int] = []
        """Slots of the segment that ran last, in the order of its calls."""
        self._refused: object = None
        """What the runtime refused to the side that ran last, by its own word."""
        self._is_warm = False
        for side, worker in enumerate(workers):
            try:
                with worker.awake():
                    worker.attach(slots)
            except KernelDiedError as error:
                raise SideDiedError(side, error.outcome) from error

    @property
    def workload(self) -> Workload:
        """The workload."""
        return self._slots.workload

    def turn(self, order: Sequence[int], deadline_s: float, *, fresh: bool = True) -> Turn:
        """Draw fresh inputs and run every side on them, in this order; verify in between.

        Calls are queued while other inputs lie in their slots; theirs come once all are held back.
        So what a call computes early, on a stream of its own, it computes from the wrong numbers.

        Raises:
            SideDiedError: a side crashed or ran past its deadline.
        """
        slots = list(range(self.plan.slots))
        if not self._is_warm:
            self._warm_up(deadline_s)
        if fresh:
            self._slots.draw(slots, [secrets.randbits(31) for _ in slots])
        self._wrong = None
        held_back = self._holds
        segments: dict[int, GpuSegment] = {}
        health = [self._shared.health()]
        for side in order:
            segments[side] = self._run(side, deadline_s)
            health.append(self._shared.health())
            if fresh and len(self._workers) > 1 and self._wrong is None:
                self._wrong = self._verify(side)
        in_order = [segments[side] for side in range(len(self._workers))]
        void = next(filter(None, map(_void, in_order)), None)
        if held_back and not self._holds:
            void = "a call waited for the device itself: from now on none is held back"
        return Turn(
            tuple(order), tuple(self._as_segment(s) for s in in_order), void,
            tuple(h for h in health if h is not None),
        )  # fmt: skip

    def asides(self, deadline_s: float) -> Asides:
        """The first side on one slot only, and as fast as the host launches its calls.

        Raises:
            SideDiedError: it crashed or ran past its deadline.
        """
        spare, *timed = range(self.plan.slots)
        warm, one = [spare] * self.plan.warm, [timed[0]] * len(timed)
        hot, launched = [], []
        for _ in range(ASIDE_SEGMENTS):
            hot.append(self._segment(0, one, one[:1], deadline_s, hold=self._holds))
            launched.append(self._segment(0, timed, warm, deadline_s, hold=False))
        return Asides(*(median(s.elapsed_s for s in kind) / len(timed) for kind in (hot, launched)))

    def examine(self) -> Finding:
        """The first side's outputs of the last turn's first call, against float64."""
        self._learn()
        found = next(self._slots.verify(self._timed[:1], self._budgets, exact=True))
        return replace(found, failure=attributed(found.failure, self._refused))

    def spot_check(self) -> tuple[int, Failure] | None:
        """The first side with a wrong output among the calls just timed, and what is wrong."""
        return self._wrong if len(self._workers) > 1 else self._verify(0)

    def _verify(self, side: int) -> tuple[int, Failure] | None:
        if not self._budgets.knows(self.workload.label, self._slots.outputs):
            self._learn()
        calls = self._timed
        if self.plan.by_clock:
            calls = secrets.SystemRandom().sample(calls, min(len(calls), CHECKED_BY_CLOCK))
        for finding in self._slots.verify(calls, self._budgets, exact=False):
            failure = attributed(finding.failure, self._refused)
            if failure is not None:
                return side, failure
        return None

    def _learn(self) -> None:
        self._slots.learn(self._timed[0], self._budgets)

    def _warm_up(self, deadline_s: float) -> None:
        """A first call of every side, side by side: what is compiled or loaded by it takes long."""
        every, spare = list(range(self.plan.slots)), self.plan.slots - 1
        if self._slots.is_blank:  # what waits behind the plug may be let go early: on valid inputs
            self._slots.draw(every, [secrets.randbits(31) for _ in every])
            self._slots.fill(every)
        else:
            self._slots.fill([spare])
        deadline_s = max(deadline_s, self._shared.first_call_s)
        for worker in self._workers:
            worker.wake()
            worker.begin_first_call(self._slots.number, spare)
        for side, worker in enumerate(self._workers):
            try:
                worker.end_first_call(deadline_s)
                worker.pause()
            except KernelDiedError as error:
                raise SideDiedError(side, error.outcome) from error
        self._is_warm = True

    def _run(self, side: int, deadline_s: float) -> GpuSegment:
        """One side's segment on what was drawn last, dealt to other slots than before."""
        spare, *self._timed = random_order(self.plan.slots)
        self._slots.deal(random_cycle(self.plan.slots))
        warm = [spare] * self.plan.warm
        ran = self._segment(side, self._timed, warm, deadline_s, hold=self._holds)
        self._refused = ran.refused
        return ran

    def _segment(
        self,
        side: int,
        timed: Sequence[int],
        warm: Sequence[int],
        deadline_s: float,
        *,
        hold: bool,
    ) -> GpuSegment:
        worker, number = self._workers[side], self._slots.number
        every = range(self.plan.slots)
        limit_s = deadline_s * (1 + min(len(timed), 2))
        try:
            if hold:
                with worker.awake():
                    held = worker.queue_slots(number, timed, warm=warm, deadline_s=limit_s)
                if held:
                    self._slots.fill(every)
                with worker.awake():
                    ran = worker.run_queued(limit_s)
                if held:
                    return ran
                self._shared.waiting.add(self.workload.label)
            self._slots.fill(every)
            with worker.awake():
                return worker.run_slots(number, timed, warm=warm, deadline_s=limit_s)
        except KernelDiedError as error:
            raise SideDiedError(side, error.outcome) from error

    @property
    def _holds(self) -> bool:
        """Whether calls are queued behind a plug before any may start."""
        return self._shared.holds and self.workload.label not in self._shared.waiting

    def _as_segment(self, segment: GpuSegment) -> Segment:
        calls = self.plan.calls + self.plan.warm
        return Segment((segment.elapsed_s / self.plan.calls,), segment.wall_s, 0.0, calls)


def _void(segment: GpuSegment) -> str | None:
    if segment.elapsed_s > segment.wall_s:
        return (
            f"the events say {segment.elapsed_s * 1e3:.3f} ms,"
            f" the parent's clock {segment.wall_s * 1e3:.3f} ms"
        )
    return None


class GpuLineup:
    """Fresh processes for a set of kernels; they start side by side."""

    def __init__(self, kernels: Sequence[Built], bench: Shared) -> None:
        """Start them all.

        Raises:
            SideDiedError: one can't be loaded.
        """
        self._shared = bench
        self.workers: list[GpuWorkerProcess] = []
        loaded = 0
        try:
            for built in kernels:
                worker = GpuWorkerProcess(
                    built, api=bench.api, cache_dir=bench.cache_dir,
                    fork_server=bench.fork_server, isolation=bench.isolation,
                )  # fmt: skip
                self.workers.append(worker)
            bench.bury()
            for worker in self.workers:
                worker.wait_until_loaded()
                worker.pause()
                loaded += 1
        except KernelDiedError as error:
            self.close()
            raise SideDiedError(loaded, error.outcome) from error

    def __enter__(self) -> GpuLineup:
        """The processes are up already."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End them."""
        self.close()

    def close(self) -> None:
        """End the processes; the next ones start while these give their memory back."""
        for worker in self.workers:
            worker.end()
        self._shared.ending.extend(self.workers)
        self.workers = []

    def station(self, inputs: Slots, plan: SegmentPlan) -> GpuStation:
        """Set a workload up.

        Raises:
            SideDiedError: a side can't map its memory.
        """
        return GpuStation(inputs, self.workers, plan, self._shared)


class GpuBench:
    """Port `Bench` on a GPU."""

    near_workloads = 1
    """A Python kernel is compiled anew for every other workload."""
    examination = SegmentPlan(3, warm=2)
    first_deadline_s = 120.0
    """Triton's autotuner compiles and times all its configurations in a first call."""

    def __init__(
        self,
        oracle: GpuOracle,
        tolerance: Tolerance,
        *,
        api: Api,
        cache_dir: Path,
        health: Callable[[], Health | None] | None = None,
        sweeps_per_instance: int = SWEEPS_PER_INSTANCE,
        first_call_s: float = 0.0,
        timing: TimingMode = "kernel",
        isolation: Isolation | None = None,
    ) -> None:
        """Nothing starts yet.

        Args:
            oracle: owns the memory.
            tolerance: of the target.
            api: of the device's driver.
            cache_dir: holds a compilation cache per candidate.
            health: reads the device's sensors, in well under a millisecond.
            sweeps_per_instance: processes are replaced after so many sweeps.
            first_call_s: that the first call in every process may take at least, whatever is known
                of the kernel: for those that compile themselves then.
            timing: the device's time, or that of calls as the host launches them.
            isolation: the walls around kernels; None: all that the host grants.
        """
        self._oracle = oracle
        self.sweeps_per_instance = sweeps_per_instance
        self.fork_server = ForkServer(server_environment())
        self.isolation = isolation or isolate("standard")
        self._shared = Shared(
            Budgets(tolerance), api, cache_dir, self.fork_server, health, self.isolation,
            first_call_s, holds=timing == "kernel",
        )  # fmt: skip

    def __enter__(self) -> GpuBench:
        """Nothing starts before it is needed."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End what is still there, and the fork server."""
        self._shared.bury()
        self.fork_server.close()

    def inputs(self, workload: Workload, slots: int) -> AbstractContextManager[Slots]:
        """Slots in device memory."""
        return self._oracle.slots(workload, slots)

    def plan(self, workload: Workload, time_s: float) -> SegmentPlan:
        """Segments of a kernel that takes about `time_s`."""
        return self._planned(workload, time_s, by_clock=False)

    def clock_plan(self, workload: Workload, time_s: float) -> SegmentPlan:
        """Segments of such a kernel for the parent's own clock."""
        return self._planned(workload, time_s, by_clock=True)

    def _planned(self, workload: Workload, time_s: float, *, by_clock: bool) -> SegmentPlan:
        segment_s, most = (CLOCK_S, MAX_CLOCK_CALLS) if by_clock else (SEGMENT_S, MAX_CALLS)
        slot_bytes = lay_out(self._oracle.describe(workload).arrays).slot_bytes
        room = min(MAX_ARENA_BYTES, self._oracle.memory_bytes // 3) // slot_bytes - 1
        calls = max(1, min(round(segment_s / max(time_s, 1e-9)), most, room))
        warm = 1 if time_s > LONG_S else DISCARDED_CALLS
        return SegmentPlan(calls, warm, by_clock)

    def lineup(self, kernels: Sequence[Built]) -> GpuLineup:
        """Start a process per kernel.

        Raises:
            SideDiedError: one can't be loaded.
        """
        return GpuLineup(kernels, self._shared)

    def reports(self, workload: Workload, found: Sequence[Finding]) -> tuple[ErrorReport, ...]:
        """Worst errors of several findings, beside their budgets."""
        return self._shared.budgets.reports(workload.label, found)
