"""What a virtual machine's host took away of the processors while something was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from roofsmith.domain.comparison import Judgement, Screening
from roofsmith.domain.kernel import Built
from roofsmith.domain.processor_time import ProcessorTime
from roofsmith.ports import Judge, Measured, Observer, Scope

NOTEWORTHY_SHARE = 0.05
"""Of the processor time that was wanted. Chosen: where less is taken away, few segments of a few
milliseconds are hit."""

ProcessorTimes = Callable[[], ProcessorTime | None]
"""Since the machine was started; None where nobody knows."""


def steal_note(begin: ProcessorTime | None, end: ProcessorTime | None) -> tuple[str, ...]:
    """One line on what the host took away between two readings; none if that is little."""
    if begin is None or end is None:
        return ()
    share = end.since(begin).stolen_share
    if share < NOTEWORTHY_SHARE:
        return ()
    return (
        f"the host of this virtual machine took away {share:.0%} of the processor time that was"
        " wanted: everything took longer, and intervals are wider",
    )


@dataclass(frozen=True, slots=True)
class HostedJudge:
    """Port `Judge` on processors that a host may give to others: what it measures says so."""

    judge: Judge
    processor_times: ProcessorTimes

    def measure(self, candidate: Built, observer: Observer, *, timed: bool = True) -> Measured:
        """As the judge does."""
        begin = self.processor_times()
        found = self.judge.measure(candidate, observer, timed=timed)
        said = steal_note(begin, self.processor_times()) if timed else ()
        return replace(found, notes=(*found.notes, *said))

    def screen(self, candidate: Built, incumbent: Built) -> Screening:
        """As the judge does."""
        return self.judge.screen(candidate, incumbent)

    def compare(
        self, candidate: Built, incumbent: Built, observer: Observer, scope: Scope | None = None
    ) -> Judgement:
        """As the judge does."""
        begin = self.processor_times()
        found = self.judge.compare(candidate, incumbent, observer, scope)
        said = steal_note(begin, self.processor_times()) if found.samples else ()
        return found.model_copy(update={"notes": (*found.notes, *said)})
