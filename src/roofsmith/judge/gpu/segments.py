"""Segments on a GPU: held back until all calls are queued or not, and seen from outside."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from roofsmith.domain.outcome import Cheated, Crashed
from roofsmith.judge.gpu.launch_gate import Queued
from roofsmith.judge.gpu.process import GpuSegment, GpuWorkerProcess, Taken
from roofsmith.judge.gpu.queued_calls import Holding
from roofsmith.judge.gpu.slots import Filled, Slots
from roofsmith.judge.timing.bench import LONGEST_SIDE_S, SegmentPlan, SideDiedError
from roofsmith.ports import KernelDiedError

PATIENCE_S = 0.5
"""For calls to end that are let go from outside. Chosen."""
LONGEST_LATCHED_S = 2 * LONGEST_SIDE_S
"""Of the slower side's segments that are let go from outside. Longer ones are of a call or two,
beside which messages are short."""


class Running:
    """Runs segments of the processes of a lineup on one workload's memory."""

    def __init__(
        self,
        slots: Slots,
        workers: Sequence[GpuWorkerProcess],
        plan: SegmentPlan,
        holding: Holding,
    ) -> None:
        self._slots = slots
        self._workers = workers
        self._plan = plan
        self._holding = holding
        self.sides = [(slots.workload.label, worker.candidate_id) for worker in workers]
        """What is known of each of them is remembered by."""
        self.calls = plan.calls
        """Timed calls of the segments of this turn."""
        self.void: str | None = None
        """Why the segments of this turn can't be compared."""
        self.lets_go = False
        """Whether nothing is held back for now."""
        self.taken: Taken | None = None
        """How the device is taken in the next segment."""

    @property
    def holds(self) -> bool:
        """Whether calls are queued behind a plug before any may start."""
        return not self.lets_go and self._holding.holds(self.sides)

    def begin_turn(self) -> None:
        """The segments to come have as many calls as all sides have room for."""
        self.calls = self._holding.calls(self.sides, self._plan.calls)
        self.void = None

    def segment(
        self,
        side: int,
        timed: Sequence[int],
        warm: Sequence[int],
        deadline_s: float,
        *,
        hold: bool,
    ) -> GpuSegment:
        """One side's calls on what was drawn last.

        Args:
            side: whose.
            timed: slots of the timed calls, in order; may repeat.
            warm: of the discarded ones; where the clock would see them, which verifies all that it
                sees, there are none.
            deadline_s: for one call.
            hold: whether nothing starts before all is queued.

        Raises:
            SideDiedError: it crashed, or ran past its deadline.
        """
        worker, number = self._workers[side], self._slots.number
        limit_s = deadline_s * (1 + min(len(timed), 2))
        try:
            if hold:
                first = () if self._plan.by_clock else warm
                with worker.awake():
                    held = worker.queue_slots(number, timed, warm=first, deadline_s=limit_s)
                if held:
                    ran = self._let_go(side, timed, limit_s)
                    self._holding.was_held(self.sides[side])
                    return replace(ran, calls=len(first) + len(timed))
                with worker.awake():
                    worker.run_queued(limit_s)
                self._holding.was_early(self.sides[side], self.calls, self._plan.calls)
                self.void = "a call waited for the device itself, or queueing took too long"
                if not self.holds:
                    self.void = "a call waited for the device itself: from now on none is held back"
            # Whoever waits for its own streams by waiting for the whole device may do so.
            defer = not self.lets_go and self.sides[side] not in self._holding.waiting
            # Discarded calls come before the inputs of those that count: what they compute ahead
            # is computed from other numbers.
            with worker.awake():
                worker.run_slots(number, (), warm=warm, deadline_s=limit_s, defer=defer)
            filled = self._fill(timed)
            with worker.awake():
                ran = worker.run_slots(
                    number, timed, warm=(), deadline_s=limit_s, defer=defer, taken=self.taken
                )
                return replace(self._seen(ran, filled), calls=len(timed))
        except KernelDiedError as error:
            raise SideDiedError(side, error.outcome) from error

    def _let_go(self, side: int, timed: Sequence[int], limit_s: float) -> GpuSegment:
        """Calls that were queued. Where the clock counts, the reference's process lets them go.

        Their own is stopped meanwhile, unless one of the sides needs it: then it is woken before.
        """
        worker, is_stopped = self._workers[side], self._holding.end_while_stopped(self.sides)
        is_short = self._plan.about_s is not None and self._plan.about_s <= LONGEST_LATCHED_S
        is_latched = self._plan.by_clock and is_short and _agree(self._workers)
        queued = worker.queued if is_latched else None
        filled = self._fill(timed, queued if is_stopped else None)
        if queued is not None and is_stopped and filled.seen_s is None:
            self._holding.needing_host.add(self.sides[side])
            self.void = "calls didn't end while their process was stopped: from now on it runs"
        with worker.awake():
            if queued is not None and not is_stopped:
                filled = replace(filled, seen_s=self._slots.let_go(queued, PATIENCE_S))
            return self._seen(worker.run_queued(limit_s), filled)

    def _fill(self, timed: Sequence[int], queued: Queued | None = None) -> Filled:
        """Pristine inputs, and the end of calls that are let go as soon as they are there."""
        watch = timed if self._watches else ()
        every = range(self._plan.slots)
        return self._slots.fill(every, watch=watch, queued=queued, patience_s=PATIENCE_S)

    def _seen(self, ran: GpuSegment, filled: Filled) -> GpuSegment:
        """The segment by the judge's clock: until the device's memory was seen from elsewhere.

        That all calls are done is a claim. What is still written is found when outputs are
        verified. Nor do they have to begin when they are let go: what waits on a stream of its own
        sees inputs come. So time counts from when they are there, and what bringing them took
        longer than it has to counts as well.
        """
        if not self._watches:
            return ran
        seen_s = filled.seen_s
        if seen_s is None:
            self._slots.look()
            seen_s = time.perf_counter()
        return replace(ran, wall_s=seen_s - filled.at_s + filled.late_s)

    @property
    def _watches(self) -> bool:
        """Whether the reference's process looks at outputs before and right after the calls."""
        return self._plan.by_clock or self.taken is not None


def _agree(workers: Sequence[GpuWorkerProcess]) -> bool:
    """Whether calls of all of them can be let go from outside, or of none.

    Raises:
        SideDiedError: one says that the driver refuses what it takes from another one. It would
            have the judge listen to its own word for the end of its calls.
    """
    said = [worker.is_latched for worker in workers]
    if any(said) and not all(said):
        detail = "its process says that it can't share a page with the judge; the other one's can"
        raise SideDiedError(said.index(False), Crashed(reason="garbled_answer", detail=detail))
    return all(said)


def written_outside(when: str) -> Cheated:
    """Outputs were written when no time was counted."""
    return Cheated(reason="work_outside_window", detail=f"outputs were written {when}")
