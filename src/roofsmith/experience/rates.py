"""How often attempts succeed, by kernel, tactic and chip. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from roofsmith.domain.experiment import Experiment

WILSON_Z: Final = 1.959963984540054
"""Of 95%, both sides."""


def wilson(count: int, trials: int) -> tuple[float, float]:
    """The interval of a share at 95% (Wilson, JASA 22, 1927); all of it without trials."""
    if not trials:
        return 0.0, 1.0
    share, z2 = count / trials, WILSON_Z**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    spread = math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    half = WILSON_Z * spread / (1 + z2 / trials)
    # The exact bound of a share of 0 or 1 is that share; rounding may miss it by an ulp.
    low = 0.0 if count == 0 else centre - half
    high = 1.0 if count == trials else centre + half
    return low, high


By = Literal["kernel", "tactic", "chip"]


@dataclass(frozen=True, slots=True)
class SuccessRate:
    """Of the attempts that have something in common."""

    by: By
    what: str
    attempts: int
    success: int
    neutral: int
    failure: int
    interval: tuple[float, float]
    """Wilson's, of the share of successes; 95%."""
    best: float
    """The highest score of a success; 0 without one."""

    @property
    def share(self) -> float:
        """Of the attempts, how many succeeded."""
        return self.success / self.attempts


def success_rates(rows: Iterable[Experiment]) -> tuple[SuccessRate, ...]:
    """Of all that was tried: no baselines, refusals or tips, and nothing masked or over-fit."""
    groups: dict[tuple[By, str], list[Experiment]] = defaultdict(list)
    for row in rows:
        if row.status not in ("baseline", "refused", "tip") and row.may_be_recommended:
            tactic = row.hypothesis.tactic if row.hypothesis is not None else "external"
            groups["kernel", f"{row.operator} in {row.backend}"].append(row)
            groups["tactic", tactic].append(row)
            groups["chip", row.arch or row.device].append(row)
    found = (_rate(by, what, group) for (by, what), group in groups.items())
    order: list[By] = ["kernel", "tactic", "chip"]
    return tuple(sorted(found, key=lambda one: (order.index(one.by), -one.attempts, one.what)))


def _rate(by: By, what: str, group: list[Experiment]) -> SuccessRate:
    results = [row.outcome for row in group]
    success = results.count("success")
    return SuccessRate(
        by, what, len(group), success, results.count("neutral"), results.count("failure"),
        wilson(success, len(group)),
        max((row.score for row in group if row.outcome == "success"), default=0.0),
    )  # fmt: skip
