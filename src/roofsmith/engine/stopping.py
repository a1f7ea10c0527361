"""When a campaign ends. Pure: the state in, the reason out."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.domain.campaign import Campaign, StopCode
from roofsmith.domain.target import StopPolicy
from roofsmith.engine.progress import consecutive_regressions, expected_round_s, held_fraction


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop condition that holds."""

    code: StopCode
    detail: str


def stop_condition(campaign: Campaign, policy: StopPolicy, spent_s: float) -> Stop | None:
    """The first stop condition that holds after the rounds so far; None to go on.

    Args:
        campaign: after its baseline.
        policy: limits in force now; a resume may raise those that the target was started with.
        spent_s: wall time of the whole campaign, earlier runs included.
    """
    return (
        _goal_reached(campaign)
        or _too_many_rounds(campaign, policy)
        or _too_many_regressions(campaign, policy)
        or _budget_spent(campaign, policy, spent_s)
    )


def _goal_reached(campaign: Campaign) -> Stop | None:
    goal = campaign.started.target.goal
    fraction = held_fraction(campaign)
    if fraction is not None and fraction >= goal.roofline_fraction:
        return Stop(
            "goal_reached",
            f"{fraction:.0%} of the roofline bound; the goal is {goal.roofline_fraction:.0%}",
        )
    if goal.speedup is not None and campaign.total_speedup >= goal.speedup:
        return Stop(
            "goal_reached",
            f"{campaign.total_speedup:.2f}x over the baseline; the goal is {goal.speedup:.2f}x",
        )
    return None


def _too_many_rounds(campaign: Campaign, policy: StopPolicy) -> Stop | None:
    if len(campaign.rounds) < policy.max_iterations:
        return None
    return Stop("max_iterations", f"{len(campaign.rounds)} rounds were judged, as many as allowed")


def _too_many_regressions(campaign: Campaign, policy: StopPolicy) -> Stop | None:
    count = consecutive_regressions(campaign.rounds)
    if count < policy.max_consecutive_regressions:
        return None
    tried = "; ".join(r.hypothesis.statement for r in campaign.rounds[-count:])
    return Stop("regressions", f"the last {count} rounds were all measurably slower: {tried}")


def _budget_spent(campaign: Campaign, policy: StopPolicy, spent_s: float) -> Stop | None:
    if policy.budget_s is None:
        return None
    next_s = expected_round_s(campaign)
    if spent_s + next_s <= policy.budget_s:
        return None
    return Stop(
        "budget",
        f"{spent_s:.0f} s of {policy.budget_s:.0f} s are spent; a round takes about {next_s:.0f} s",
    )
