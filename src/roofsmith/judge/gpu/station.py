"""One workload on a GPU, set up for the processes of a lineup."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from roofsmith.domain.health import Health
from roofsmith.domain.outcome import Failure
from roofsmith.domain.workload import Workload
from roofsmith.judge.bench import (
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
from roofsmith.judge.gpu.oracle import DeviceFullError, Slots
from roofsmith.judge.gpu.process import GpuSegment, GpuWorkerProcess
from roofsmith.judge.gpu.reasons import attributed, device_failure
from roofsmith.judge.isolation import Isolation
from roofsmith.judge.segment import Segment
from roofsmith.ports import KernelDiedError

CHECKED_BY_CLOCK = 32
"""Calls of a long segment that are verified, chosen once all have run."""
ASIDE_SEGMENTS = 5
"""For the medians of times that nothing is decided on."""
HOARD_BYTES = 2**30
"""Device memory that no process takes for nothing: a context and the code of torch take half."""


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
    free_bytes: Callable[[], int] = int
    """Device memory that nobody holds."""
    living: list[GpuWorkerProcess] = field(default_factory=list)
    """Of the lineup that is up, by side."""
    ahead: list[list[GpuWorkerProcess]] = field(default_factory=list)
    """Of lineups to come, by side: loaded and stopped."""
    ending: list[GpuWorkerProcess] = field(default_factory=list)
    """Killed, but perhaps not gone yet."""
    footprints: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Device memory in bytes that fresh processes of these candidates hold together."""

    @contextlib.contextmanager
    def blaming(self) -> Iterator[None]:
        """Where the reference finds no device memory, the kernel that holds most of it is at fault.

        Raises:
            SideDiedError: it does, and all kernels that were up have ended.
            DeviceFullError: no kernel holds much.
        """
        try:
            yield
        except DeviceFullError as error:
            held = self._held_bytes()
            most = max(held, default=0)
            if most < HOARD_BYTES:
                raise
            said = f"it holds {most / 1e9:.1f} GB of device memory, and none is left to judge it in"
            failure = device_failure("CUDA_ERROR_OUT_OF_MEMORY", said)
            raise SideDiedError(held.index(most), failure) from error

    def _held_bytes(self) -> list[int]:
        """How much memory the device has back from each kernel that is up, once it has ended."""
        self.dismiss()
        self.bury()
        held, before = [], self.free_bytes()
        for worker in self.living:
            worker.end()
            worker.close()
            now = self.free_bytes()
            held.append(now - before)
            before = now
        return held

    def end(self, workers: Iterable[GpuWorkerProcess]) -> None:
        """Begin to end processes."""
        for worker in workers:
            worker.end()
            self.ending.append(worker)

    def dismiss(self) -> None:
        """Begin to end what was started ahead."""
        while self.ahead:
            self.end(self.ahead.pop())

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
        self._fresh_turns = 0
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
            SideDiedError: a side crashed, ran past its deadline, or took all memory.
        """
        with self._shared.blaming():
            return self._turn(order, deadline_s, fresh=fresh)

    def _turn(self, order: Sequence[int], deadline_s: float, *, fresh: bool) -> Turn:
        slots = list(range(self.plan.slots))
        if not self._is_warm:
            self._warm_up(deadline_s)
        if fresh:
            self._slots.draw(slots, [secrets.randbits(31) for _ in slots])
            self._fresh_turns += 1
        self._wrong = None
        comes_back = self.plan.comes_back and fresh and self._fresh_turns == 2
        held_back = self._holds
        segments: dict[int, GpuSegment] = {}
        health = [self._shared.health()]
        for side in order:
            segments[side] = self._run(side, deadline_s, comes_back=comes_back)
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
        with self._shared.blaming():
            self._learn()
            found = next(self._slots.verify(self._timed[:1], self._budgets, exact=True))
        return replace(found, failure=attributed(found.failure, self._refused))

    def spot_check(self) -> tuple[int, Failure] | None:
        """The first side with a wrong output among the calls just timed, and what is wrong."""
        if len(self._workers) > 1:
            return self._wrong
        with self._shared.blaming():
            return self._verify(0)

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

    def _run(self, side: int, deadline_s: float, *, comes_back: bool) -> GpuSegment:
        """One side's segment on what was drawn last, dealt to other slots than before."""
        spare, *timed = random_order(self.plan.slots)
        if comes_back:
            spare = self._timed[-1]
            others = [slot for slot in random_order(self.plan.slots) if slot != spare]
            timed = [spare, *others][: self.plan.calls]
        self._timed = timed
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
            # Discarded calls come before the inputs of those that count: what they compute ahead
            # is computed from other numbers.
            with worker.awake():
                worker.run_slots(number, (), warm=warm, deadline_s=limit_s)
            self._slots.fill(every)
            with worker.awake():
                return worker.run_slots(number, timed, warm=(), deadline_s=limit_s)
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
