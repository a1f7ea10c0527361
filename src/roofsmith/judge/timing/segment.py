"""What one `run` of a worker came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roofsmith.analysis.clock import MESSAGES_S

MAX_WAIT_SHARE = 0.02
"""A segment whose threads waited for a processor no longer than `MESSAGES_S` and this share of it
counts as it was timed."""

Calls = Sequence[Sequence[int | float]]
"""Arguments of calls; a pointer is an offset into their arena."""
Ranges = Sequence[tuple[int, int]]
"""(offset, size) in an arena."""


@dataclass(frozen=True, slots=True)
class Segment:
    """What one `run` came to."""

    times_s: tuple[float, ...]
    """Each timed call, by the worker's clock: a claim."""
    wall_s: float
    """All of them by the parent's clock, with the messages."""
    waited_s: float
    """How long others may have kept its threads from their processors, at the most: the sum over
    threads, from the scheduler."""
    wall_calls: int
    """Calls within `wall_s`, discarded ones included."""
    claimed_s: float | None = None
    """Seconds per call by the worker's clock; None where it has none beside the parent's."""
    late_s: float = 0.0
    """How long the judge waited for a processor meanwhile: in `wall_s`, and not in the calls."""
    least_s: float = 0.0
    """The least that they took without others by the parent's clock: what its only thread ran from
    one stop to the next, less what messages may have; 0: it isn't known."""
    own_s: float | None = None
    """The most that all calls took without others; None: several threads ran. See
    `judge.timing.processor_time.Awake`."""

    def disturbed_s(self, *, by_clock: bool = False) -> float:
        """How long others may have held a call up, at the most; seconds, 0 if that is little.

        By the worker's clock, waiting before the first call and after the last one is none of
        theirs: what the parent's clock has beyond the calls is waiting, but for messages. Waking a
        worker's main thread is waiting as well; it comes on a quiet machine, too, and taking it off
        would hide small gains there.

        Args:
            by_clock: by the judge's own, which the judge's waiting holds up, too.
        """
        if by_clock:
            waited_s = min(self.waited_s + self.late_s, self.wall_s - self.least_s)
        else:
            outside_s = self.wall_s - sum(self.times_s)
            waited_s = min(self.waited_s, self.waited_s + self.late_s + MESSAGES_S - outside_s)
        if waited_s <= MESSAGES_S + MAX_WAIT_SHARE * self.wall_s:
            return 0.0
        return waited_s / self.wall_calls

    @property
    def clock_s(self) -> float:
        """Seconds per call by the parent's clock alone."""
        return self.wall_s / self.wall_calls


def times_ns(claimed: object, count: int) -> list[int] | None:
    """What a worker says its calls took, if it has the form that was asked for."""
    if not isinstance(claimed, list) or len(claimed) != count:
        return None
    times = [t for t in claimed if type(t) is int and 0 <= t < 10**15]
    return times if len(times) == count else None
