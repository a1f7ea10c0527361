"""What is planned before it is judged, so that no idea is lost with a process. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from roofsmith.analysis.bases import base_of, why_no_base
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.proposal import Planned, Proposal
from roofsmith.domain.refusal import BadAnswer
from roofsmith.engine.wording import Claim

MOST_LOSSES = 8
"""Deaths over one plan after which nobody tries it again. Chosen: an idea may have cost much, and
what dies so often dies of it."""


def planned_as(campaign: Campaign, proposal: Proposal) -> Planned | None:
    """The plan that a proposal, formatted or not, has a record of; None if it has none."""
    planned, unlike = campaign.planned, {"candidate", "formatting", "screened", "tokens"}
    if planned is None or planned.proposal.proposed_id != proposal.proposed_id:
        return None
    known = planned.proposal.model_dump(exclude=unlike)
    return planned if known == proposal.model_dump(exclude=unlike) else None


def lost_for_good(campaign: Campaign, planned: Planned) -> BadAnswer | None:
    """Why a plan isn't judged once more; None if it is."""
    if campaign.losses < MOST_LOSSES:
        return None
    died = f"roofsmith ended {campaign.losses} times before round {planned.round} was judged"
    proposal = planned.proposal
    return BadAnswer(reason="lost", detail=died, tokens=proposal.tokens, proposer=proposal.proposer)


def plan_complaints(planned: Planned, campaign: Campaign) -> Iterator[str]:
    """What a plan's record contradicts."""
    if campaign.baseline is None:
        yield "a plan before the baseline"
    elif planned.round != campaign.last_round + 1:
        yield f"round {planned.round} is planned after round {campaign.last_round}"
    if planned.proposal.candidate.id == campaign.incumbent.id:
        yield f"the incumbent is planned as round {planned.round}"
    base = planned.proposal.base
    if base is not None and (why := why_no_base(campaign, base)):
        yield f"round {planned.round} is planned on top of another: {why}"


def plan_claims(round_: Round, campaign: Campaign) -> Iterator[Claim]:
    """That a round is of what was planned; older ledgers hold no plans, nor bases."""
    if campaign.planned is None:
        yield "base", round_.base, None
        return
    planned = campaign.planned.proposal
    yield "base", round_.base, base_of(campaign, planned, round_.repairs)
    yield "planned hypothesis", round_.hypothesis, planned.hypothesis
    yield "planned candidate", round_.candidate.id, planned.candidate.id
    said = (planned.proposer, planned.tokens)
    yield "who planned it, and tokens", (round_.proposer, round_.tokens), said
