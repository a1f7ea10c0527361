"""Conditions that end a campaign."""

from __future__ import annotations

from typing import Literal

from roofsmith.domain.target import StopPolicy
from roofsmith.domain.values import Value

StopCode = Literal[
    "goal_reached", "efficiency_reached", "max_iterations", "interrupted", "regressions", "budget",
    "tokens", "cost", "out_of_ideas", "no_idle_gpu",
]  # fmt: skip
"""goal_reached: a speedup (older ledgers: also a share of the roofline); efficiency_reached: a
share of the roofline; budget: of time; tokens, cost: the limit is reached, or what is left of it
pays for no further answer."""


class EndCheck(Value):
    """One of the conditions that end a campaign, as it stood at an end."""

    code: StopCode
    holds: bool
    detail: str
    """In a sentence, with its figures."""


class Wishes(Value):
    """What somebody wants of a campaign that runs; it is looked at before every round."""

    stop: bool = False
    """Whether it is to end."""
    limits: StopPolicy | None = None
    """To be in force from then on; None: as before."""
