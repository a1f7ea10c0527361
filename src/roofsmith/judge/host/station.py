"""One workload on the host's processors, set up for the processes of a lineup."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from roofsmith.analysis.clock import MESSAGES_S
from roofsmith.domain.outcome import Cheated, Failure
from roofsmith.domain.workload import Workload
from roofsmith.judge.correctness.budgets import Finding
from roofsmith.judge.correctness.checking import Checker, same_bytes, trespass
from roofsmith.judge.correctness.distributions import OWN
from roofsmith.judge.correctness.low_precision_inputs import Attempts, Ways
from roofsmith.judge.correctness.poison import unwritten
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.draws import Draws
from roofsmith.judge.host.process import WorkerProcess
from roofsmith.judge.sandbox.process_memory import beside
from roofsmith.judge.timing.bench import (
    CHECKED_BY_CLOCK,
    Odd,
    SegmentPlan,
    SideDiedError,
    Turn,
    chosen_afterwards,
    odd_among,
    overstated,
    random_order,
)
from roofsmith.judge.timing.processor_time import Awake, spent_at_stop
from roofsmith.judge.timing.segment import Segment
from roofsmith.ports import KernelDiedError

SETTLING_FACTOR = 2
"""Multiple of the last-level cache that is read after staging what doesn't fit it: caches don't
replace strictly the oldest line."""

AHEAD = 2
"""Draws that are made ahead beside those of the next turn: one for each of the reference's
processes."""

LOOKS_WITHOUT_PAGES = 2
"""A side that lacks pages once may have the system to thank: short of memory, Linux 6.12 and later
takes a huge page's that hold zeros only (`try_to_map_unused_to_zeropage` in mm/migrate.c)."""
GAVE_BACK = "gave pages of its outputs back to the system, which clears them after the call"

TAMPERED = (
    "its library ran Python code, or changed some, in the process that calls it: what that process"
    " gains or leaves out so is no gain of the kernel's"
)


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
                is_shared = not (plan.by_clock and worker.is_reachable)
                arena = Arena(draws.arrays, plan.slots, is_shared=is_shared)
                self.arenas.append(arena)
                with worker.awake():
                    self._numbers.append(worker.map(arena))
        except BaseException:
            self.close()
            raise
        self._workers = workers
        self._timed: list[int] = []
        """Slots of the last segments, in the order of their calls; the same for all sides."""
        self._idle: list[int] = []
        """Slots that lay beside them and that no call was given."""
        self._odd: dict[int, str] = {}
        """Of the timed slots, those whose inputs are from another distribution."""
        self._spare: int | None = None
        """The slot of the discarded call."""
        self._lacking = [0] * len(workers)
        """Segments after which a side lacked pages."""
        self._bystander = bytearray()

    @property
    def workload(self) -> Workload:
        return self.draws.workload

    def asides(self, deadline_s: float) -> None:
        """Nothing: a call is a call here, and hot data would be another workload."""

    def examine(self) -> Finding:
        """The first side's outputs of the last turn's first call, against float64."""
        return self._checker.check(self.draws, self.arenas[0], self._timed[0])

    def attempts(self, known: Ways | None) -> Attempts:
        """What may explain outputs of the last turn's first call that are within their budgets."""
        return self._checker.attempts(self.draws, self.arenas[0], self._timed[0], known)

    def spot_check(self) -> tuple[int, Failure] | None:
        """The first side with a wrong output among the calls just timed, and what is wrong."""
        usual = [slot for slot in self._timed if slot not in self._odd]
        if self.plan.by_clock:
            usual = chosen_afterwards(usual)
        if usual and not self._checker.knows(self.draws):
            self._checker.learn(self.draws, usual[0])
        for slot in usual:
            self.draws.expect(slot, exact=False)
        # while these are compared, the reference draws for the turns to come
        ahead = [OWN] * (self.plan.calls + self.plan.idle + AHEAD)
        is_part = self.plan.calls > CHECKED_BY_CLOCK
        self.draws.foresee(ahead, "nothing" if is_part else "declared")
        for slot in usual:
            for side, arena in enumerate(self.arenas):
                failure = self._checker.spot_check(self.draws, arena, slot).failure
                if failure is not None:
                    return side, failure
        return None

    def close(self) -> None:
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
        return self._turn(order, deadline_s)

    def mixed(
        self, order: Sequence[int], deadline_s: float, others: Sequence[str]
    ) -> tuple[Odd, ...]:
        """A turn that no side can tell from others, but for a few calls' inputs; it has no times.

        Raises:
            SideDiedError: a side crashed or ran past its deadline.
        """
        self._draw(others)
        self._turn(order, deadline_s)
        return tuple(Odd(slot, self._judged(slot)) for slot in self._odd)

    def alone(self, odd: Odd, deadline_s: float) -> Finding:
        """The same call, in processes that have made no other.

        Raises:
            SideDiedError: a side crashed or ran past its deadline.
        """
        self._timed, self._idle, self._spare = [odd.slot], [], None
        self._odd = {odd.slot: odd.finding.distribution}
        self._turn([0], deadline_s)
        return self._judged(odd.slot)

    def _judged(self, slot: int) -> Finding:
        """The last side's outputs of an odd call."""
        with self._drawing(slot):
            return self._checker.check(self.draws, self.arenas[-1], slot)

    @contextlib.contextmanager
    def _drawing(self, slot: int) -> Iterator[None]:
        """What an odd call's inputs are drawn from; of all others, what was said last."""
        if slot not in self._odd:
            yield
            return
        self.draws.use(self._odd[slot])
        try:
            yield
        finally:
            self.draws.use(OWN)

    def _turn(self, order: Sequence[int], deadline_s: float) -> Turn:
        segments: dict[int, Segment] = {}
        there = sorted((*self._timed, *self._idle))
        if self._spare is None:  # nothing runs before: the reference needn't wait for this
            for side in order:
                self._prepare(self.arenas[side], there)
        with self.draws.asleep():
            for side in order:
                try:
                    segments[side] = self._run(side, there, deadline_s)
                except KernelDiedError as error:
                    raise SideDiedError(side, error.outcome) from error
                if self.plan.by_clock and self._workers[side].is_tampered:
                    raise SideDiedError(side, Cheated(reason="clock_forged", detail=TAMPERED))
                if wrong := self._uncalled_for(self.arenas[side]):
                    raise SideDiedError(side, wrong)
        in_order = tuple(segments[side] for side in range(len(self._workers)))
        for side, segment in enumerate(in_order):
            if forged := overstated(sum(segment.times_s), segment.wall_s):
                raise SideDiedError(side, forged)
        return Turn(tuple(order), in_order, next(filter(None, map(_void, in_order)), None))

    def _draw(self, others: Sequence[str] = ()) -> None:
        """New inputs, in slots whose order nobody can predict.

        So a kernel that goes by addresses or counts calls is wrong, never lucky. The discarded call
        has a slot that another call had before, with what was drawn for it then.

        Args:
            others: distributions that a few calls' inputs are drawn from, at random.
        """
        is_first = not self._timed
        order = random_order(self.plan.slots)
        self._spare = order.pop() if self.plan.warm else None
        calls = self.plan.calls - secrets.randbelow(self.plan.idle + 1)
        self._timed, self._idle = order[:calls], order[calls:]
        self._odd = odd_among(self._timed, others)
        first = [self._spare] if self._spare is not None and is_first else []
        coming = (*first, *order)
        if len(coming) > 1:
            usual = self.draws.distribution
            self.draws.foresee([self._odd.get(slot, usual) for slot in coming], "nothing")
        for slot in coming:
            with self._drawing(slot):
                self.draws.draw(slot)

    def _prepare(self, arena: Arena, slots: Sequence[int]) -> None:
        """Pristine inputs, poisoned outputs, and guard bands unlike the last ones."""
        for slot in slots:
            arena.prepare(slot, self.draws.given(slot), self.draws.guard())

    def _run(self, side: int, there: Sequence[int], deadline_s: float) -> Segment:
        worker, arena, number = self._workers[side], self.arenas[side], self._numbers[side]
        timed = self._timed
        if self._spare is not None:
            self._prepare(arena, [self._spare])
            if not arena.is_shared:
                worker.put(number, arena, [self._spare])
            with worker.awake():
                if arena.is_shared:
                    worker.stage(number, arena, [self._spare])
                worker.run(number, [self._arguments(arena, self._spare)], deadline_s)
            # Nothing of the timed slots is in the worker's memory while the discarded call runs.
            self._prepare(arena, there)
        calls = [self._arguments(arena, slot) for slot in timed]
        limit_s = deadline_s * len(calls)
        settled_bytes = 0
        is_large = len(there) * arena.layout.slot_bytes > self._cache_bytes
        if is_large and not (self.plan.examines and len(self._workers) == 1):
            settled_bytes = SETTLING_FACTOR * self._cache_bytes
        if not arena.is_shared:
            with beside(worker.pid):
                worker.put(number, arena, there)
                self._settle(settled_bytes)
            stop = spent_at_stop(worker.pid)
            segment = worker.run_at_once(number, calls, limit_s)
            had = worker.since(stop)
            segment = replace(_shared(segment, had), least_s=max(had.least_s - MESSAGES_S, 0.0))
            self._require_pages(side, there)
            worker.take(number, arena, there)
            return segment
        stop = spent_at_stop(worker.pid)
        with worker.awake():
            worker.stage(number, arena, there)
            if settled_bytes:
                worker.settle(settled_bytes)
            at_once = () if self.plan.by_clock else arena.ranges(timed[-1:])
            segment = worker.run(number, calls, limit_s, at_once)
            self._require_pages(side, there)
            begin = time.perf_counter()
            worker.collect(number, arena, there)
            if self.plan.by_clock:
                # What `solve` left to threads of its own must be done by the time it is collected:
                # all but what collecting takes is the kernel's.
                collected = time.perf_counter()
                worker.collect(number, arena, there)
                late_s = (collected - begin) - (time.perf_counter() - collected)
                segment = replace(segment, wall_s=segment.wall_s + max(late_s, 0.0))
        return _shared(segment, worker.since(stop))

    def _require_pages(self, side: int, slots: Sequence[int]) -> None:
        """See that nothing is left to whoever reads what a side made: the system's clearing, too.

        Raises:
            SideDiedError: it is, again and again.
        """
        worker, number = self._workers[side], self._numbers[side]
        self._lacking[side] += worker.lacks_pages(number, self.arenas[side], slots)
        if self._lacking[side] >= LOOKS_WITHOUT_PAGES:
            detail = f"{self.draws.subject}: {GAVE_BACK}"
            raise SideDiedError(side, Cheated(reason="work_outside_window", detail=detail))

    def _uncalled_for(self, arena: Arena) -> Failure | None:
        """What a side did to slots that none of its calls was given."""
        for slot in self._idle:
            if where := trespass(self.draws, arena, slot):
                return where
            for output in self.draws.outputs:
                out = arena.view(slot, output.name)
                given = self.draws.given(slot).get(output.name)
                kept = (
                    unwritten(out, output.dtype).all() if given is None else same_bytes(out, given)
                )
                if not kept:
                    detail = (
                        f"{self.draws.subject}: wrote to {output.name!r} of a call that wasn't made"
                    )
                    return Cheated(reason="work_outside_window", detail=detail)
        return None

    def _settle(self, size_bytes: int) -> None:
        """As the worker's, where it was this process that wrote what was put."""
        if len(self._bystander) < size_bytes:
            self._bystander = bytearray(b"\1") * size_bytes
        self._bystander.find(0, 0, size_bytes)

    def _arguments(self, arena: Arena, slot: int) -> list[int | float]:
        arrays = iter(self.draws.arrays)
        scalars = iter(self.draws.description.numbers.values())
        return [
            next(scalars) if parameter.role == "size" else arena.offset(slot, next(arrays).name)
            for parameter in self.draws.signature.parameters
        ]


def _shared(segment: Segment, had: Awake) -> Segment:
    """The segment with what others took of it."""
    return replace(segment, waited_s=min(segment.waited_s, had.unused_s), own_s=had.own_s)


def _void(segment: Segment) -> str | None:
    claimed = sum(segment.times_s)
    if claimed > segment.wall_s:
        return (
            f"the worker's clock says {claimed * 1e3:.3f} ms,"
            f" the parent's {segment.wall_s * 1e3:.3f} ms"
        )
    return None
