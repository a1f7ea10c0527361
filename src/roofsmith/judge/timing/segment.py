"""What one `run` of a worker came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    """How long the worker's threads were ready but had no processor; from the scheduler."""
    wall_calls: int
    """Calls within `wall_s`, discarded ones included."""
    claimed_s: float | None = None
    """Seconds per call by the worker's clock; None where it has none beside the parent's."""

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
