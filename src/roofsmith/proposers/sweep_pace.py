"""How many points a sweep looks at before it thinks again: what builds and looks take decides."""

from __future__ import annotations

import math
from dataclasses import dataclass

FIRST_BATCH = 4
"""Points before anything is known of what they take."""
BUILDS_PER_LOOK = 2.0
"""A batch is so large that a build's share of a point takes half as long as its look. Larger ones
gain little time, and more of their points are guesses. On simulated costs of five tunables, with
builds of 4 s, looks of 1 s, 16 processors and 60 s, 0.48 of the possible gain (in the logarithm)
was left; 0.52 with half as large batches, 0.54 with twice as large ones, 0.76 with one build at a
time."""


@dataclass(slots=True)
class Pace:
    """What a sweep's batches took so far, and how large the next one may be.

    A batch's builds run side by side and its looks one after the other, so a point of a batch of
    b takes build / b + look.
    """

    side_by_side: int
    """Builds that run at the same time."""
    _build_s: float = 0.0
    _waves: int = 0
    """Groups of at most `side_by_side` builds, each of which takes about as long as one."""
    _look_s: float = 0.0
    _looks: int = 0

    def built(self, count: int, wall_s: float) -> None:
        """Note what it took to build this many at once."""
        self._waves += math.ceil(count / self.side_by_side)
        self._build_s += wall_s

    def looked(self, wall_s: float) -> None:
        """Note what a look took."""
        self._looks += 1
        self._look_s += wall_s

    @property
    def worthwhile(self) -> int:
        """Points that are worth being chosen without knowing what the others come to."""
        if self._waves == 0 or self._looks == 0:
            return 1
        build_s, look_s = self._build_s / self._waves, self._look_s / self._looks
        if build_s * BUILDS_PER_LOOK >= self.side_by_side * look_s:
            return self.side_by_side
        return max(1, round(BUILDS_PER_LOOK * build_s / look_s))

    def fitting(self, left_s: float) -> int:
        """Points that can be built at once and looked at in the time left."""
        if left_s <= 0:
            return 0
        if self._waves == 0 or self._looks == 0:
            return min(FIRST_BATCH, self.side_by_side)
        build_s, look_s = self._build_s / self._waves, self._look_s / self._looks
        left_s -= build_s
        if left_s >= self.side_by_side * look_s:
            return self.side_by_side
        return max(0, math.floor(left_s / look_s))
