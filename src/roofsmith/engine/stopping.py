"""When a campaign ends. Pure: the state in, every condition with its figures out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from roofsmith.analysis.figures import money
from roofsmith.analysis.fractions import (
    attainable_name,
    attainable_share,
    held_fraction,
    held_rate,
    rate_goals,
)
from roofsmith.analysis.regressions import regressions_in_a_row
from roofsmith.analysis.spending import uncounted
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.ending import EndCheck, StopCode
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.standing import limits_in_force
from roofsmith.domain.target import StopPolicy
from roofsmith.engine.progress import (
    NOTABLE_S,
    expected_end_s,
    expected_judgement_s,
    expected_round_s,
    held_metric,
    reference_share_s,
)

BYTES_ONLY = " (bytes only)"
YARDSTICK_S = 15.0
"""To compile and judge one of PyTorch's own on a cold machine; on an H100 three took 20 to 60 s."""
SHORT_S = 300.0
"""Budget below which PyTorch's own are measured only where time is left for them. Chosen."""

Extra = Literal["held-out shapes", "the last profile", "PyTorch's own kernels"]
"""What an end can do without."""


@dataclass(frozen=True, slots=True)
class Stop:
    code: StopCode
    detail: str


def stop_condition(campaign: Campaign, policy: StopPolicy, spent_s: float) -> Stop | None:
    """The first stop condition that holds after the rounds so far; None to go on.

    Args:
        campaign: after its baseline.
        policy: limits in force now; a resume may raise those that the target was started with.
        spent_s: wall time of the whole campaign, earlier runs included.
    """
    return _first(conditions(campaign, policy, spent_s))


def repair_condition(campaign: Campaign, policy: StopPolicy, spent_s: float) -> Stop | None:
    """The same before a repair or a dispatch: they belong to a round that was counted already."""
    checks = conditions(campaign, policy, spent_s)
    return _first(tuple(check for check in checks if check.code != "max_iterations"))


def limit_reached(
    campaign: Campaign, policy: StopPolicy, spent_s: float, *, repair: bool
) -> Stop | None:
    """The limit that is in the way of a round by hand; None if there is none.

    Who goes on by hand may want more than the goal, but gets no more than is allowed.
    """
    limits = {"regressions", "budget", "tokens", "cost"} | (set() if repair else {"max_iterations"})
    checks = conditions(campaign, policy, spent_s)
    return _first(tuple(check for check in checks if check.code in limits))


def time_is_left(campaign: Campaign, policy: StopPolicy, spent_s: float) -> bool:
    """Whether a judgement and the end fit into what is left of the budget."""
    return not _budget_spent(campaign, policy, spent_s).holds


def left_for_pairs_s(campaign: Campaign, policy: StopPolicy, spent_s: float) -> float | None:
    """What the budget leaves a judgement that begins now, less what the end takes; None: there is
    no limit. A round that was let in has what one usually takes."""
    if policy.budget_s is None:
        return None
    left_s = policy.budget_s - spent_s - (expected_end_s(campaign) or 0.0)
    return max(left_s, expected_judgement_s(campaign))


def left_out(
    campaign: Campaign, policy: StopPolicy, spent_s: float, yardsticks: int
) -> tuple[Extra, ...]:
    """What an end has no time for, said before it begins: a short budget is kept.

    Args:
        campaign: at its end.
        policy: limits in force now.
        spent_s: wall time of the whole campaign.
        yardsticks: how many there are.
    """
    budget_s, holder, end_s = policy.budget_s, campaign.holder, expected_end_s(campaign, more=0)
    if budget_s is None or end_s is None or campaign.baseline is None:
        return ()
    needed_s: dict[Extra, float] = {}
    if campaign.held_out is not None and campaign.kept:
        needed_s["held-out shapes"] = expected_judgement_s(campaign)
    if holder is not None and holder.profile is None:
        needed_s["the last profile"] = campaign.baseline.measured_s or end_s
    if yardsticks and budget_s < SHORT_S:
        needed_s["PyTorch's own kernels"] = YARDSTICK_S * yardsticks
    left_s, none_left = budget_s - spent_s - end_s, list[Extra]()
    for name, taken_s in needed_s.items():
        if taken_s > left_s:
            none_left.append(name)
        else:
            left_s -= taken_s
    return tuple(none_left)


def conditions(campaign: Campaign, policy: StopPolicy, spent_s: float) -> tuple[EndCheck, ...]:
    """Every condition that ends a campaign by what it holds, in the order in which they count."""
    return (
        _goal_reached(campaign),
        _efficiency_reached(campaign),
        _too_many_rounds(campaign, policy),
        _too_many_regressions(campaign, policy),
        _budget_spent(campaign, policy, spent_s),
        _tokens_spent(campaign, policy),
        *_cost_spent(campaign, policy),
    )


def end_checks(
    campaign: Campaign, policy: StopPolicy, spent_s: float, stop: Stop
) -> tuple[EndCheck, ...]:
    """Every condition at an end: those by what the campaign holds, and those that just happen."""
    happened = (
        EndCheck(
            code=code, holds=stop.code == code, detail=stop.detail if stop.code == code else not_so
        )
        for code, not_so in _EVENTS.items()
    )
    return (*conditions(campaign, policy, spent_s), *happened)


_EVENTS: dict[StopCode, str] = {
    "interrupted": "nobody interrupted it",
    "out_of_ideas": "a proposer may have more ideas",
    "no_idle_gpu": "nothing was in the way of measuring",
}
"""What ends a campaign without being a condition of its state, and what it is called if not."""


def _first(checks: tuple[EndCheck, ...]) -> Stop | None:
    found = next((check for check in checks if check.holds), None)
    return Stop(found.code, found.detail) if found is not None else None


def _goal_reached(campaign: Campaign) -> EndCheck:
    target, total = campaign.started.target, campaign.total_speedup
    goal, spec, reached = target.goal, target.command, held_metric(campaign)
    details, holds = [], False
    for work, wanted, unit in rate_goals(goal):
        rate = held_rate(campaign, work)
        known = "UNKNOWN" if rate is None else f"{rate:.4g} {unit}"
        details.append(f"{known}; the goal is {wanted:.4g} {unit}")
        holds |= rate is not None and rate >= wanted
    if goal.speedup is not None:
        details.append(f"{total:.2f}x over the baseline; the goal is {goal.speedup:.2f}x")
        holds |= total >= goal.speedup
    if goal.metric is not None and spec is not None:
        unit = f" {spec.unit}" if spec.unit else ""
        known = "UNKNOWN" if reached is None else f"{reached:.4g}{unit}"
        details.append(f"{spec.metric} is {known}; the goal is {goal.metric:.4g}{unit}")
        holds |= reached is not None and spec.is_as_good(reached, goal.metric)
    detail = "; ".join(details) or "no speedup is asked for"
    return EndCheck(code="goal_reached", holds=holds, detail=detail)


def _efficiency_reached(campaign: Campaign) -> EndCheck:
    goal, fraction = campaign.started.target.goal.roofline_fraction, held_fraction(campaign)
    if goal is None:
        detail = "no share of the roofline is asked for"
        return EndCheck(code="efficiency_reached", holds=False, detail=detail)
    if fraction is None:
        detail = f"the share of the roofline is UNKNOWN; the goal is {goal:.0%}"
        return EndCheck(code="efficiency_reached", holds=False, detail=detail)
    only = BYTES_ONLY if campaign.started.bytes_only else ""
    detail = f"{fraction:.0%} of the roofline bound{only}; the goal is {goal:.0%}"
    share = attainable_share(fraction, campaign.started.bounds)
    if share is not None:
        detail = f"{share:.0%} of the {attainable_name(campaign.started.bounds)}, {detail}"
        fraction = share
    return EndCheck(code="efficiency_reached", holds=fraction >= goal, detail=detail)


def _too_many_rounds(campaign: Campaign, policy: StopPolicy) -> EndCheck:
    counted = sum(round_.repairs is None and round_.splits is None for round_ in campaign.rounds)
    others = len(campaign.rounds) - counted
    most = policy.max_iterations
    holds = most is not None and counted >= most
    allowed = "as many as allowed" if holds else f"{most or 'any number'} are allowed"
    uncounted = f"; {others} repairs and dispatches don't count" if others else ""
    judged = "1 round was judged" if counted == 1 else f"{counted} rounds were judged"
    detail = f"{judged}, {allowed}{uncounted}"
    return EndCheck(code="max_iterations", holds=holds, detail=detail)


def _too_many_regressions(campaign: Campaign, policy: StopPolicy) -> EndCheck:
    found = regressions_in_a_row(campaign.since_restart, campaign.started.target.stop.max_repairs)
    limit = policy.max_consecutive_regressions
    if limit is None or len(found) < limit:
        of = "" if limit is None else f" of {limit}"
        detail = f"{len(found)}{of} rounds in a row were measurably slower"
        return EndCheck(code="regressions", holds=False, detail=detail)
    tried = "; ".join(round_.hypothesis.statement for round_ in found)
    detail = f"the last {len(found)} rounds were all measurably slower: {tried}"
    return EndCheck(code="regressions", holds=True, detail=detail)


def _budget_spent(campaign: Campaign, policy: StopPolicy, spent_s: float) -> EndCheck:
    if policy.budget_s is None:
        return EndCheck(code="budget", holds=False, detail="there is no limit on time")
    next_s, end_s = expected_round_s(campaign), expected_end_s(campaign)
    detail = (
        f"{spent_s:.0f} s of {policy.budget_s:.0f} s are spent; a round takes about {next_s:.0f} s"
    )
    if end_s is not None:
        detail += f", the end {end_s:.0f} s"
    if reference_share_s(campaign) > max(next_s / 2, NOTABLE_S):
        each_s = campaign.started.reference_s
        detail += f"; most of that is the reference, {each_s:.2g} s each time"
    holds = spent_s + next_s + (end_s or 0.0) > policy.budget_s
    return EndCheck(code="budget", holds=holds, detail=detail)


def _tokens_spent(campaign: Campaign, policy: StopPolicy) -> EndCheck:
    spent = campaign.tokens
    if policy.max_tokens is None:
        detail = f"{spent} tokens are spent; there is no limit on them"
        return EndCheck(code="tokens", holds=False, detail=detail)
    short = _too_little_left(campaign, policy, "tokens")
    detail = f"{spent} of {policy.max_tokens} tokens are spent{short}"
    holds = spent >= policy.max_tokens or bool(short)
    return EndCheck(code="tokens", holds=holds, detail=detail)


def _cost_spent(campaign: Campaign, policy: StopPolicy) -> Iterator[EndCheck]:
    """No check where there is no limit: ends were recorded without one before there were limits."""
    if policy.max_cost_usd is None:
        return
    spent = campaign.cost_usd
    short = _too_little_left(campaign, policy, "cost")
    detail = f"{money(spent)} of {money(policy.max_cost_usd)} are spent{short}"
    yield EndCheck(code="cost", holds=spent >= policy.max_cost_usd or bool(short), detail=detail)


def _too_little_left(
    campaign: Campaign, policy: StopPolicy, what: Literal["tokens", "cost"]
) -> str:
    """Who wasn't asked for want of it, or what nobody can count of it.

    Empty: nobody and nothing since the last resume, or there are other limits by now.
    """
    if policy != limits_in_force(campaign):
        return ""
    for past in reversed(campaign.proposed_since_resume):
        if isinstance(past, Refusal) and past.reason == what:
            return f"; {past.proposer}: {past.detail}"
        if what in uncounted(past):
            return (
                f"; what {past.proposer} took for an answer is UNKNOWN, its output doesn't say it:"
                " this limit can't hold for it, and `roofsmith resume` asks it once more"
            )
    return ""
