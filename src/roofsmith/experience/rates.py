"""How often attempts succeed, by kernel, tactic and chip. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from roofsmith.analysis.shares import wilson
from roofsmith.domain.experiment import Experiment

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
