"""One workload on a GPU, set up for the processes of a lineup."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TypeVar

from roofsmith.domain.outcome import Failure
from roofsmith.domain.workload import Workload
from roofsmith.judge.correctness.budgets import Finding
from roofsmith.judge.correctness.distributions import OWN
from roofsmith.judge.correctness.low_precision_inputs import Attempts, Ways
from roofsmith.judge.gpu.process import GpuSegment, GpuWorkerProcess, Taken
from roofsmith.judge.gpu.reasons import attributed
from roofsmith.judge.gpu.segments import Running, written_outside
from roofsmith.judge.gpu.shared import Shared
from roofsmith.judge.gpu.slots import Slots
from roofsmith.judge.timing.bench import (
    Asides,
    Odd,
    SegmentPlan,
    SideDiedError,
    Turn,
    chosen_afterwards,
    odd_among,
    overstated,
    random_cycle,
    random_order,
)
from roofsmith.judge.timing.segment import Segment
from roofsmith.ports import KernelDiedError

Known = TypeVar("Known")

OCCUPIED_S = 0.05
"""That the device is taken for, to see whether calls are waited for: some time slices, which the
reference's process needs for a look, and a wait that nobody notices. Chosen."""
TAKEN_SHARE = 0.9
"""Of that time, which whoever waits for its calls takes at least. Chosen: clocks differ by less."""
MOST_UNWRITTEN = 8
"""Calls that are verified besides, for an element of theirs still held its poison. Chosen: a single
one is enough, but honest kernels may leave NaN where the reference has some."""
EARLY = "before any of the calls was let go"
LATE = "after the worker had said that all calls were done"
ASIDE_SEGMENTS = 5
"""For the medians of times that nothing is decided on."""


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
        self._running = Running(slots, workers, plan, bench.holding)
        self._wrong: tuple[int, Failure] | None = None
        self._timed: list[int] = []
        """Slots of the segment that ran last, in the order of its calls."""
        self._odd: dict[int, str] = {}
        """Slots whose inputs are from another distribution."""
        self._judged: dict[int, Finding] = {}
        """Of these, what the last side made of those that a timed call was given."""
        self._refused: object = None
        """What the runtime refused to the side that ran last, by its own word."""
        self._is_warm = False
        self._deadline_s = 0.0
        """Of the last turn."""
        self._fresh_turns = 0
        self._came_back = False
        """Whether the last turn's first call was given the slot of the call just before."""
        self._repeats = False
        """Whether the last turn's first call was given the inputs that it had before."""
        for side, worker in enumerate(workers):
            try:
                with worker.awake():
                    worker.attach(slots)
            except KernelDiedError as error:
                raise SideDiedError(side, error.outcome) from error

    @property
    def workload(self) -> Workload:
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

    def _turn(
        self,
        order: Sequence[int],
        deadline_s: float,
        *,
        fresh: bool,
        others: Sequence[str] = (),
        comes_back: bool = False,
    ) -> Turn:
        self._deadline_s = deadline_s
        self._running.begin_turn()
        if not self._is_warm:
            self._warm_up(deadline_s, self.plan.slots - 1)
        self._repeats = not fresh and len(self._workers) == 1
        if fresh:
            self._draw(others)
            self._fresh_turns += 1
        self._wrong = None
        second = self.plan.comes_back and fresh and self._fresh_turns == 2
        self._came_back = second or comes_back
        segments: dict[int, GpuSegment] = {}
        health = [self._shared.health()]
        for position, side in enumerate(order):
            if fresh and len(self._workers) > 1:
                if position:
                    self._slots.scrub()
                self._shared.require_idle(self._workers)
            segments[side] = self._run(side, deadline_s)
            health.append(self._shared.health())
            if self._odd:
                if side == len(self._workers) - 1:
                    self._judged = {s: self._judge(s) for s in self._timed if s in self._odd}
            elif fresh and len(self._workers) > 1 and self._wrong is None:
                self._wrong = self._verify(side)
        in_order = [segments[side] for side in range(len(self._workers))]
        for side, segment in enumerate(in_order):
            if forged := overstated(segment.elapsed_s, segment.wall_s):
                raise SideDiedError(side, forged)
        void = self._running.void
        if void is None and not self.plan.by_clock:  # where events don't count, they void nothing
            void = next(filter(None, map(_void, in_order)), None)
        return Turn(
            tuple(order), tuple(self._as_segment(s) for s in in_order), void,
            tuple(h for h in health if h is not None),
        )  # fmt: skip

    def mixed(
        self, order: Sequence[int], deadline_s: float, others: Sequence[str]
    ) -> tuple[Odd, ...]:
        """A turn that no side can tell from others, but for a few calls' inputs; it has no times.

        Raises:
            SideDiedError: as above.
        """
        self._judged = {}
        with self._shared.blaming():
            self._turn(order, deadline_s, fresh=True, others=others)
        return tuple(Odd(slot, finding) for slot, finding in self._judged.items())

    def alone(self, odd: Odd, deadline_s: float) -> Finding:
        """The same call, in a process that was given nothing else.

        Raises:
            SideDiedError: as above.
        """
        self._odd = {odd.slot: odd.finding.distribution}
        with self._shared.blaming():
            self._warm_up(deadline_s, odd.slot)
            ran = self._running.segment(0, [odd.slot], (), deadline_s, hold=self._running.holds)
            self._refused = ran.refused
            return self._judge(odd.slot)

    def _draw(self, others: Sequence[str]) -> None:
        """New inputs for all slots; for a few, if there are other distributions, from those."""
        every = range(self.plan.slots)
        self._odd = odd_among(every, others)
        self._slots.draw(every, [secrets.randbits(31) for _ in every])
        for slot, distribution in self._odd.items():
            self._slots.use(distribution)
            try:
                self._slots.draw([slot], [secrets.randbits(31)])
            finally:
                self._slots.use(OWN)

    def _judge(self, slot: int) -> Finding:
        """The last segment's outputs of an odd call, against float64."""
        self._slots.use(self._odd[slot])
        try:
            self._slots.learn(slot, self._budgets)
            found = next(iter(self._slots.verify([slot], self._budgets, exact=True)))
        finally:
            self._slots.use(OWN)
        return replace(found, failure=attributed(found.failure, self._refused))

    def asides(self, deadline_s: float) -> Asides:
        """The first side on one slot only, and as fast as the host launches its calls.

        Raises:
            SideDiedError: it crashed or ran past its deadline.
        """
        spare, *timed = range(self.plan.slots)
        warm, one = [spare] * self.plan.warm, [timed[0]] * len(timed)
        hot, launched = [], []
        for _ in range(ASIDE_SEGMENTS):
            hot.append(self._running.segment(0, one, one[:1], deadline_s, hold=self._running.holds))
            launched.append(self._running.segment(0, timed, warm, deadline_s, hold=False))
        return Asides(*(median(s.elapsed_s for s in kind) / len(timed) for kind in (hot, launched)))

    def examine(self) -> Finding:
        """The first side's outputs of the last turn's first call, against float64.

        A kernel that starts on a stream of its own, which nothing holds back, sees inputs that
        aren't there yet. So whoever is wrong runs once more on the same inputs, with nothing held
        back. If it is right then, and wrong again as soon as it is held back again, nothing is from
        then on. Of whoever isn't held back it is seen once whether its calls are waited for. What
        ran again only to be compared with the turn before has no name for what is wrong with it.
        """
        with self._shared.blaming():
            if self._repeats:
                return self._examined(named=False)
            found = self._examined(named=not self._running.holds)
            if self._running.holds:
                if found.failure is None:
                    return found
                again = self._once_more(hold=False)
                if again.failure is not None or not again.counts:
                    return again if again.counts else found
                if self._once_more(hold=True).failure is None:
                    return found  # chance
                self._shared.holding.waiting.add(self._running.sides[0])
                found = again
            if found.failure is None and self._shared.holding.is_unseen(self._running.sides[0]):
                return replace(found, failure=self._late_work())
            return found

    def _late_work(self) -> Failure | None:
        """What it is that calls write their outputs after they are said to be done, if they do.

        A short kernel would be through before anybody can look. So no kernel starts for a while:
        the device is taken before some call, beside the stream that calls are waited for on.
        """
        self._running.taken = Taken(OCCUPIED_S, before=secrets.randbelow(self._running.calls))
        try:
            turn = self._turn([0], self._deadline_s, fresh=False)
        finally:
            self._running.taken = None
        if self._slots.sight().is_early:
            return written_outside(EARLY)
        time.sleep(2 * OCCUPIED_S)
        if self._slots.has_changed():
            return written_outside(LATE)
        was_taken = turn.segments[0].wall_s >= TAKEN_SHARE * OCCUPIED_S
        self._shared.holding.was_looked_at(self._running.sides[0], is_waited_for=was_taken)
        return None

    def _once_more(self, *, hold: bool) -> Finding:
        """The first call's outputs once more: the same inputs between the same guard bands."""
        self._running.lets_go = not hold
        try:
            with self._slots.guarded_like(self._timed[0]):
                self._turn([0], self._deadline_s, fresh=False, comes_back=self._came_back)
            return self._examined(named=not hold)
        finally:
            self._running.lets_go = False

    def _examined(self, *, named: bool = True) -> Finding:
        self._learn()
        found = next(self._slots.verify(self._timed[:1], self._budgets, exact=True, named=named))
        return replace(found, failure=attributed(found.failure, self._refused))

    def attempts(self, known: Ways | None) -> Attempts:
        """To explain outputs of the last turn's first call that are within their budgets."""
        with self._shared.blaming():
            return self._slots.attempts(self._timed[0], self._budgets, known)

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
            seen = self._slots.sight()
            if seen.is_early:
                return side, written_outside(EARLY)
            calls = sorted({*chosen_afterwards(calls), *seen.unwritten[:MOST_UNWRITTEN]})
        for finding in self._slots.verify(calls, self._budgets, exact=False):
            failure = attributed(finding.failure, self._refused)
            if failure is not None:
                return side, failure
        if self.plan.by_clock and self._slots.has_changed():
            return side, written_outside(LATE)
        return None

    def _learn(self) -> None:
        self._slots.learn(self._timed[0], self._budgets)

    def _warm_up(self, deadline_s: float, spare: int) -> None:
        """A first call of every side: what is compiled or loaded by it takes long, so side by side.

        Args:
            deadline_s: for it.
            spare: the slot that all of them are given.
        """
        every = range(self.plan.slots)
        if self._slots.is_blank:  # what waits behind the plug may be let go early: on valid inputs
            self._slots.draw(every, [secrets.randbits(31) for _ in every])
            self._slots.fill(every, first=spare)
        else:
            self._slots.fill([spare], first=spare)
        # Whoever measures its variants in its first call has the device to itself meanwhile.
        sides = range(len(self._workers))
        alone = any(worker.names_tuning for worker in self._workers)
        for together in [[side] for side in sides] if alone else [sides]:
            for side in together:
                self._workers[side].wake()
                self._workers[side].begin_first_call(self._slots.number, spare)
            for side in together:
                try:
                    self._workers[side].end_first_call(deadline_s)
                    self._workers[side].pause()
                except KernelDiedError as error:
                    raise SideDiedError(side, error.outcome) from error
        self._is_warm = True

    def _run(self, side: int, deadline_s: float) -> GpuSegment:
        """One side's segment on what was drawn last, dealt to other slots than before."""
        spare, *timed = random_order(self.plan.slots)
        order = random_cycle(self.plan.slots)
        if self._repeats:  # at another address, the first call is given what it was given before
            first = order.index(self._timed[0])
            others = [slot for slot in (spare, *timed) if slot != first]
            spare, timed = first if self._came_back else others[0], [first, *others[1:]]
        elif self._came_back:
            spare = self._timed[-1]
            others = [slot for slot in random_order(self.plan.slots) if slot != spare]
            timed = [spare, *others][: self.plan.calls]
        self._timed = timed[: self._running.calls]
        self._deal(order)
        # A discarded call that is held back runs on the inputs that count: where it has the slot of
        # the first that does, whoever works in place would be given its own result.
        warm = [] if self._came_back and self._running.holds else [spare] * self.plan.warm
        ran = self._running.segment(side, self._timed, warm, deadline_s, hold=self._running.holds)
        self._refused = ran.refused
        return ran

    def _deal(self, order: Sequence[int]) -> None:
        """Slot i is given what was drawn for slot `order[i]`; with it goes what is known of it."""
        self._slots.deal(order)
        self._odd, self._judged = _dealt(self._odd, order), _dealt(self._judged, order)

    def _as_segment(self, segment: GpuSegment) -> Segment:
        elapsed_s = segment.elapsed_s / self._running.calls
        return Segment((elapsed_s,), segment.wall_s, 0.0, segment.calls)


def _dealt(known: Mapping[int, Known], order: Sequence[int]) -> dict[int, Known]:
    """What is known of slots, once slot i has what slot `order[i]` had."""
    return {to: known[of] for to, of in enumerate(order) if of in known}


def _void(segment: GpuSegment) -> str | None:
    if segment.elapsed_s > segment.wall_s:
        return (
            f"the events say {segment.elapsed_s * 1e3:.3f} ms,"
            f" the parent's clock {segment.wall_s * 1e3:.3f} ms"
        )
    return None
