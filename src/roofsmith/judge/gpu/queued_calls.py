"""Whose calls can be queued before any of them may start, and how many at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Side = tuple[str, str]
"""A workload's label and a candidate's id."""

FEWEST_QUEUED, SHRINKING = 16, 4
"""A segment that starts early twice may have more launches than the device's queue holds: the next
ones have fewer calls by this factor, down to so many. Whoever starts early even then waits for the
device itself. Chosen."""

MOST_LOOKS = 3
"""At a kernel whose calls can't be told to be waited for, be it because the driver has no way to
take the device: each takes tenths of a second. Chosen."""


@dataclass(slots=True)
class Holding:
    """What is learned of kernels that are held back, as long as a bench lasts."""

    wanted: bool = True
    """Whether calls are queued at all: what is timed is the device then, not the host."""
    waiting: set[Side] = field(default_factory=set)
    """Sides that aren't held back, nor is who is timed beside them: the kernel waits for the device
    itself, or starts on a stream of its own whatever holds back the one that it was called on."""
    needing_host: set[Side] = field(default_factory=set)
    """Sides whose queued calls don't end while their process is stopped."""
    _looks: dict[Side, int] = field(default_factory=dict)
    """How often it may still be looked at whether calls of those that aren't held back are waited
    for."""
    _early: set[Side] = field(default_factory=set)
    """Those whose last segment that was held back started early."""
    _fitting: dict[tuple[Side, int], int] = field(default_factory=dict)
    """Calls that the launch queue has room for where it hasn't for all that were planned."""

    def holds(self, sides: Iterable[Side]) -> bool:
        """Whether all of them are held back."""
        return self.wanted and self.waiting.isdisjoint(sides)

    def end_while_stopped(self, sides: Iterable[Side]) -> bool:
        return self.needing_host.isdisjoint(sides)

    def calls(self, sides: Iterable[Side], planned: int) -> int:
        """How many calls of a segment all of them have room for."""
        return min(self._fitting.get((side, planned), planned) for side in sides)

    def is_unseen(self, side: Side) -> bool:
        """Whether nobody knows yet that its calls are waited for."""
        return self._looks.get(side, MOST_LOOKS) > 0

    def was_looked_at(self, side: Side, *, is_waited_for: bool) -> None:
        """Its calls were waited for, or that couldn't be told."""
        self._looks[side] = 0 if is_waited_for else self._looks.get(side, MOST_LOOKS) - 1

    def was_held(self, side: Side) -> None:
        """A segment waited until it was let go."""
        self._early.discard(side)

    def was_early(self, side: Side, calls: int, planned: int) -> None:
        """A segment of so many calls started early; a host that is held up does that once, a queue
        that is full as long as there are as many calls, and a kernel that waits each time."""
        if side in self._early:
            if calls > FEWEST_QUEUED:
                self._fitting[side, planned] = max(calls // SHRINKING, FEWEST_QUEUED)
            else:
                self._fitting.pop((side, planned), None)
                self.waiting.add(side)
        self._early.add(side)
