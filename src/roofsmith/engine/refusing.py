"""What is wrong with a proposal before anything is built of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.analysis.bases import kernel_under, why_no_base
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.ending import StopCode
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.refusal import BadAnswer, Refusal, RefusalReason
from roofsmith.engine.parts import CheckCitations
from roofsmith.engine.repairing import why_no_repair
from roofsmith.engine.stopping import Stop

_CODE: StopCode = "out_of_ideas"
_SHOWN = 3
"""Refusals that a stop names; all of them are in the log."""


def objection(campaign: Campaign, proposal: Proposal, cited: CheckCitations) -> BadAnswer | None:
    """Why a proposal can't become a round; None if it can."""
    return (
        _misfit(campaign, proposal)
        or _baseless(campaign, proposal)
        or _unchanged(campaign, proposal)
        or _repair(campaign, proposal)
        or _uncited(campaign, proposal, cited)
    )


def _misfit(campaign: Campaign, proposal: Proposal) -> BadAnswer | None:
    candidate, incumbent = proposal.candidate, campaign.incumbent
    if candidate.language != incumbent.language:
        other = f"the candidate is in {candidate.language}, the kernel in {incumbent.language}"
        return _bad(proposal, "malformed", other)
    if not any(source.path == incumbent.kernel.path for source in candidate.sources):
        return _bad(proposal, "malformed", f"the candidate lacks {incumbent.kernel.path}")
    names = [found.name for found in campaign.classes]
    aim = proposal.hypothesis.target_class
    if aim == "global" or aim in names:
        return None
    known = f"this campaign has no config class called {aim!r}; known: {', '.join(names)}"
    return _bad(proposal, "malformed", known)


def _baseless(campaign: Campaign, proposal: Proposal) -> BadAnswer | None:
    if proposal.base is None or proposal.repair:
        return None
    why = why_no_base(campaign, proposal.base)
    return None if why is None else _bad(proposal, "malformed", f"nothing is built on it: {why}")


def _unchanged(campaign: Campaign, proposal: Proposal) -> BadAnswer | None:
    below = {"the incumbent": campaign.incumbent}
    if proposal.base is not None:
        below[f"round {proposal.base}"] = kernel_under(campaign, proposal.base)
    for whose, kernel in below.items():
        if proposal.candidate.id == kernel.id:
            same = f"the proposed kernel and its build are those of {whose}, byte for byte"
            return _bad(proposal, "no_change", same)
    return None


def _repair(campaign: Campaign, proposal: Proposal) -> BadAnswer | None:
    why = why_no_repair(campaign, proposal) if proposal.repair else None
    return None if why is None else _bad(proposal, "bad_repair", why)


def _uncited(campaign: Campaign, proposal: Proposal, cited: CheckCitations) -> BadAnswer | None:
    problems = cited(proposal.hypothesis, campaign).problems
    return _bad(proposal, "uncited", "; ".join(problems)) if problems else None


def _bad(proposal: Proposal, reason: RefusalReason, detail: str) -> BadAnswer:
    return BadAnswer(
        reason=reason,
        detail=detail,
        tokens=proposal.tokens,
        cost_usd=proposal.cost_usd,
        proposer=proposal.proposer,
    )


def too_many_refusals(campaign: Campaign, proposer: str, limit: int) -> Stop | None:
    """The end of a campaign whose proposer answers with nothing that can be judged.

    Args:
        campaign: so far.
        proposer: that is asked, by name; members of a portfolio have names of their own.
        limit: refusals in a row, see `StopPolicy.max_refusals`.
    """
    if not campaign.is_silent(proposer, limit):
        return None
    found = campaign.refused_in_a_row(proposer)
    if found[-1].reason == "unavailable":
        return Stop(_CODE, f"{proposer} can't be asked: {found[-1].detail}")
    return Stop(_CODE, f"the last {len(found)} answers of {proposer} were refused: {_last(found)}")


def anybody_silent(campaign: Campaign, limit: int) -> bool:
    """Whether a proposer isn't asked any more for its refusals; after a resume it may answer."""
    names = {refusal.proposer for refusal in campaign.refusals}
    return any(campaign.is_silent(name, limit) for name in names)


def out_of_ideas(campaign: Campaign, proposer: str) -> Stop:
    """The end of a campaign whose proposer has nothing left to try on this incumbent."""
    names = proposer.replace("+", " and ") or "no proposer"
    detail = f"{names}: no more ideas for this kernel"
    found = campaign.refused_since_resume
    return Stop(_CODE, f"{detail}; refused: {_last(found)}" if found else detail)


def _last(refusals: Sequence[Refusal]) -> str:
    said = {
        (r.reason, r.detail.partition("; log: ")[0]): f"{r.reason.replace('_', ' ')}: {r.detail}"
        for r in refusals
    }
    return "; ".join(list(said.values())[-_SHOWN:])
