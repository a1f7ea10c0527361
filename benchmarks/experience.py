"""A record: whether campaigns that followed the database of experiments saved rounds.

They saved too little, so no campaign follows it any more; what made the record is in git's history.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from result_file import Made, mean_interval
from roofsmith.domain.values import Value

SHARE = 0.95
"""Of the final speedup, that a campaign has to have reached."""


class Tried(Value):
    """One round."""

    tactic: str
    outcome: str
    decision: str
    predicted: float | None
    speedup: float | None
    total_speedup: float


class Run(Value):
    """One campaign."""

    rounds: tuple[Tried, ...]
    stopped: str
    wall_s: float

    @property
    def final(self) -> float:
        """Speedup over the naive kernel."""
        return self.rounds[-1].total_speedup if self.rounds else 1.0

    @property
    def needed(self) -> int:
        """Rounds until `SHARE` of the final speedup was there."""
        return self.rounds_to(SHARE * self.final)

    def rounds_to(self, speedup: float) -> int:
        """Rounds until that was there; one more than there are where it never was."""
        reached = (n for n, r in enumerate(self.rounds, 1) if r.total_speedup >= speedup)
        return 0 if speedup <= 1 else next(reached, len(self.rounds) + 1)

    @property
    def least(self) -> int:
        """The same, had what was kept been tried first, the largest gains before the others."""
        gains = sorted(
            (r.speedup or 1.0 for r in self.rounds if r.decision == "kept"), reverse=True
        )
        reached = (n for n in range(len(gains)) if math.prod(gains[:n]) >= SHARE * self.final)
        return next(reached, len(gains)) if self.needed else 0


class CaseRow(Value):
    """Both campaigns of a case; None: not run yet."""

    case: str
    family: str
    dims: dict[str, int]
    without: Run | None = None
    with_others: Run | None = None
    experiments: int = 0
    """Of other cases, that the second campaign could ask."""


class Summary(Value):
    """Follows from the rows that have both campaigns."""

    campaigns: int
    rounds_without: int
    """Until `SHARE` of the final speedup, all campaigns together."""
    rounds_with: int
    rounds_with_to_same: int
    """With the database, until `SHARE` of the final speedup without it."""
    least_rounds: int
    """Of those without: had each campaign tried what it kept first."""
    fewer: float
    """Share of the rounds that were saved."""
    fewer_rounds: int
    """Campaigns that needed fewer, more."""
    more_rounds: int
    final_ratio: float
    """Final speedup with the database over that without: geometric mean."""
    final_ratio_ci: tuple[float, float] | None
    """95%, by Student's distribution over campaigns."""
    all_rounds_without: int
    all_rounds_with: int


class ExperienceRecord(Value):
    """A result file."""

    made: Made
    summary: Summary | None = None
    cases: tuple[CaseRow, ...] = ()


def summarize(rows: Sequence[CaseRow]) -> Summary | None:
    """Of the rows that have both campaigns; None: there are none."""
    pairs = [(r.without, r.with_others) for r in rows if r.without and r.with_others]
    if not pairs:
        return None
    ratios = [math.log(b.final / a.final) for a, b in pairs]
    ci = mean_interval(ratios) if len(ratios) > 1 else None
    without, others = (sum(run.needed for run in side) for side in zip(*pairs, strict=True))
    return Summary(
        campaigns=len(pairs),
        rounds_without=without,
        rounds_with=others,
        rounds_with_to_same=sum(b.rounds_to(SHARE * a.final) for a, b in pairs),
        least_rounds=sum(a.least for a, _ in pairs),
        fewer=1 - others / without if without else 0.0,
        fewer_rounds=sum(b.needed < a.needed for a, b in pairs),
        more_rounds=sum(b.needed > a.needed for a, b in pairs),
        final_ratio=math.exp(sum(ratios) / len(ratios)),
        final_ratio_ci=None if ci is None else (math.exp(ci[0]), math.exp(ci[1])),
        all_rounds_without=sum(len(a.rounds) for a, _ in pairs),
        all_rounds_with=sum(len(b.rounds) for _, b in pairs),
    )
