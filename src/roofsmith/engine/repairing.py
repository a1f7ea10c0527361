"""An idea whose results are wrong is repaired a few times before it is dropped. Pure."""

from __future__ import annotations

from roofsmith.analysis.regressions import repairs_made
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.proposal import Proposal, RepairTask


def repair_task(campaign: Campaign) -> RepairTask | None:
    """What is to be repaired before anything else is tried; None if there is nothing.

    That is the last round's idea, if its results were wrong, it has attempts left, and planning may
    see it. A dispatch or an ablation is nobody's idea.
    """
    last = campaign.rounds[-1] if campaign.rounds else None
    if last is None or last.is_own or last.round in campaign.masked:
        return None
    made = repairs_made(campaign.rounds, last.idea)
    left = campaign.started.target.stop.max_repairs - made
    if not isinstance(last.judgement.outcome, Incorrect) or left <= 0:
        return None
    return RepairTask(
        round=last.idea,
        hypothesis=last.hypothesis,
        candidate=last.candidate,
        outcome=last.judgement.outcome,
        attempt=made + 1,
        attempts_left=left,
    )


def nothing_to_repair(campaign: Campaign) -> str:
    """Why nothing is to be repaired, where `repair_task` gives None."""
    return f"there is nothing to repair: {_why(campaign)}; tell it as an idea of its own"


def why_no_repair(campaign: Campaign, proposal: Proposal) -> str | None:
    """Why a proposal doesn't repair what was wrong, though it says so; None if it does."""
    task = repair_task(campaign)
    if task is None:
        return nothing_to_repair(campaign)
    if proposal.hypothesis != task.hypothesis:
        return f"a repair keeps the idea of round {task.round}: {task.hypothesis.statement}"
    if proposal.candidate.id == task.candidate.id:
        return "the repaired kernel and its build are those that were wrong, byte for byte"
    return None


def repaired_round(campaign: Campaign, proposal: Proposal) -> int | None:
    """First round of the idea that a proposal repairs; None if it is an idea of its own."""
    task = repair_task(campaign) if proposal.repair else None
    return None if task is None else task.round


def _why(campaign: Campaign) -> str:
    if not campaign.rounds:
        return "no round was judged yet"
    last = campaign.rounds[-1]
    if last.is_own:
        return f"round {last.round} is roofsmith's own, made of kernels that were right"
    if last.round in campaign.masked:
        return f"round {last.round} is masked from planning"
    if not isinstance(last.judgement.outcome, Incorrect):
        return f"the result of round {last.round} wasn't wrong"
    made = repairs_made(campaign.rounds, last.idea)
    if made == 0:
        return "this target allows no repairs (stop.max_repairs)"
    return f"the idea of round {last.idea} was repaired {made} times, as often as allowed"
