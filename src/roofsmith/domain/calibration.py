"""Predictions against measurements: of one round, and of a proposer's over many."""

from __future__ import annotations

from typing import Literal

from roofsmith.domain.category import Category
from roofsmith.domain.values import Value

Landing = Literal["hit", "short", "beyond", "contrary", "undecided", "unmeasured", "unpredicted"]
"""Where a measurement landed. hit: as predicted, by `analysis.calibration.landing`. short: less in
that direction, or nothing. beyond: more. contrary: the other way. undecided: the
interval is too wide to tell."""


class Score(Value):
    """One prediction and what became of it. Ratios above 1 are gains for a speedup."""

    predicted: float | None
    """A ratio. None: nothing was predicted, or (of a counter) its direction alone."""
    measured: float | None
    landing: Landing


class RoundScore(Value):
    """A round's hypothesis, scored."""

    round: int
    tactic: str
    category: Category
    speedup: Score
    """Of what the hypothesis targets: the whole, or one config class."""
    counter: str | None
    """The one that it said would move."""
    movement: Score
    """The counter's value for the candidate over the incumbent's, on the same workload."""


class Calibration(Value):
    """How far one proposer's predictions of a kind of change can be trusted in this campaign."""

    proposer: str
    category: Category
    rounds: int
    """Measured or not."""
    kept: int
    measured: int
    """Rounds with a predicted and a measured speedup that says whether it came true."""
    hits: int
    """Of these, as predicted."""
    ratio: float | None
    """Median of measured over predicted speedup (of the logarithms, so exp of it); below 1: it
    promises too much. None: nothing to compare."""
    counters: int
    """Rounds whose counter was read before and after."""
    counter_hits: int

    @property
    def hit_share(self) -> float | None:
        """Hits over measured rounds."""
        return self.hits / self.measured if self.measured else None
