"""Calls on other inputs among those that are timed.

Who knows that it is being examined can be careful there, and only there. So now and then, while
pairs are measured, a turn like all others has a few calls whose inputs are from another
distribution.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Failure
from roofsmith.errors import BadReferenceError, TargetError
from roofsmith.judge.correctness.budgets import Finding
from roofsmith.judge.correctness.examiner import CHECKS, NOTABLE, Examiner
from roofsmith.judge.timing.bench import (
    Bench,
    Inputs,
    Odd,
    SegmentPlan,
    SideDiedError,
    Station,
    random_order,
)

ONE_IN = 2
"""Turns, at random, that have a mixed one in front of them. Chosen, like the numbers below."""
MIXED_SHARE = 0.2
"""Of a measurement's time that mixed turns may take: what they gave is compared with float64, which
takes long on large workloads."""
REPEATS = 2
"""Fresh processes that must be right on the same inputs before a call is held against anybody."""


@dataclass(slots=True)
class Mixer:
    """Mixes other inputs among a candidate's timed calls."""

    bench: Bench[Any]
    examiner: Examiner
    candidate: Built
    monotonic: Callable[[], float] = time.monotonic
    spent_s: float = 0.0
    """So far; no time of the measurement's."""
    _begin: float = field(init=False)

    def __post_init__(self) -> None:
        """The measurement begins."""
        self._begin = self.monotonic()

    def look(self, station: Station, inputs: Inputs, plan: SegmentPlan) -> Failure | None:
        """Perhaps a mixed turn; what is wrong with the candidate there, and not when examined.

        What is wrong in a process of its own and in an examination's way, too, was for the
        examination to find, which also knows whether incumbents are right there.

        Raises:
            SideDiedError: a side crashed or ran past its deadline.
        """
        begin = self.monotonic()
        others = self.examiner.others(inputs)
        if not others or secrets.randbelow(ONE_IN):
            return None
        if self.spent_s > MIXED_SHARE * (begin - self._begin):
            return None
        limit_s = self.examiner.deadline_s(inputs.workload)
        try:
            for odd in station.mixed(random_order(2), limit_s, others):
                failure = odd.finding.failure
                if failure is not None and (why := self._where_it_is_right(odd, inputs, plan)):
                    detail = f"among timed calls, but not {why}, {failure.detail}"
                    return failure.model_copy(update={"detail": detail})
        finally:
            self.spent_s += self.monotonic() - begin
        return None

    def _where_it_is_right(self, odd: Odd, inputs: Inputs, plan: SegmentPlan) -> str | None:
        """Where fresh processes make clearly less of an error on the very same inputs; or None."""
        if all(self._is_right_alone(odd, inputs, plan) for _ in range(REPEATS)):
            return "alone in a fresh process"
        if all(self._is_right_examined(odd, inputs) for _ in range(REPEATS)):
            return "where the same inputs are an examination's"
        return None

    def _is_right_alone(self, odd: Odd, inputs: Inputs, plan: SegmentPlan) -> bool:
        """Whether a process is that was given nothing else, amid the memory of a measurement."""
        try:
            with self.bench.lineup([self.candidate]) as lineup:
                limit_s = self.examiner.deadline_s(inputs.workload)
                found = lineup.station(inputs, plan).alone(odd, limit_s)
        except SideDiedError:  # then it isn't right
            return False
        return _is_better(found, odd.finding)

    def _is_right_examined(self, odd: Odd, inputs: Inputs) -> bool:
        """Whether one is for which all is as in an examination: its memory, and the calls before.

        Who looks around to tell the two apart sees nothing else there.
        """
        try:
            with self.bench.inputs(inputs.workload, self.bench.examination.slots) as own:
                return self._is_right_on(own, odd, inputs.seed(odd.slot))
        except (BadReferenceError, TargetError):  # such as no room for them
            return False

    def _is_right_on(self, own: Inputs, odd: Odd, seed: int) -> bool:
        limit_s = self.examiner.deadline_s(own.workload)
        try:
            with self.bench.lineup([self.candidate]) as lineup:
                station = lineup.station(own, self.bench.examination)
                for _ in range(CHECKS):
                    station.turn([0], limit_s)
                own.use(odd.finding.distribution, seed=seed)
                station.turn([0], limit_s)
                return _is_better(station.examine(), odd.finding)
        except SideDiedError:
            return False


def _is_better(alone: Finding, among: Finding) -> bool:
    """Whether one run is right, and the other wrong by more than another order of sums explains."""
    if alone.failure is not None or not alone.counts:
        return False
    return any(
        among.errors[name].problem is not None
        or among.errors[name].norm > NOTABLE * found.norm
        or among.errors[name].element > NOTABLE * found.element
        for name, found in alone.errors.items()
    )
