"""A kept change that the kernel does as well without: the ablation that the engine proposes."""

from __future__ import annotations

from roofsmith.analysis.ablation import TACTIC, due_ablation
from roofsmith.domain.campaign import Campaign, Resumed
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.domain.target import StopPolicy
from roofsmith.engine.progress import expected_round_s
from roofsmith.engine.stopping import conditions


def ablation(campaign: Campaign, limits: StopPolicy, spent_s: float) -> Proposal | None:
    """The kernel that holds without one of its changes; None: none is due, or no limit has room."""
    if not _has_room(campaign, limits, spent_s) or (found := due_ablation(campaign)) is None:
        return None
    change, rest = found
    return Proposal(
        hypothesis=Hypothesis(
            statement=f"Leave out round {change.round}: {change.hypothesis.statement}",
            rationale="a change that later ones made superfluous complicates the kernel and gains"
            " nothing",
            category=change.hypothesis.category,
            tactic=TACTIC,
        ),
        candidate=rest,
        ablates=change.round,
    )


def is_ablating(campaign: Campaign) -> bool:
    """Whether ideas have ended: the last round is an ablation, and no resume followed it."""
    last = campaign.rounds[-1] if campaign.rounds else None
    if last is None or last.ablates is None or campaign.planned is not None:
        return False
    since = (a.event for a in campaign.asides if a.after_round == last.round)
    return not any(isinstance(event, Resumed) for event in since)


def _has_room(campaign: Campaign, limits: StopPolicy, spent_s: float) -> bool:
    """Within the campaign's limits on rounds and time, and within ablation's own on time."""
    checks = conditions(campaign, limits, spent_s)
    if any(check.holds for check in checks if check.code in ("max_iterations", "budget")):
        return False
    taken_s = sum(r.wall_s for r in campaign.rounds if r.ablates is not None)
    return taken_s + expected_round_s(campaign) <= limits.ablation_s
