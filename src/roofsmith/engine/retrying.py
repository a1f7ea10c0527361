"""A change that void pairs left unproven is judged again before it counts as tried. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from roofsmith.analysis.doubt import doubt_about
from roofsmith.analysis.unproven import is_unproven, promise
from roofsmith.domain.campaign import Campaign, Resumed, Round
from roofsmith.domain.proposal import Proposal

MOST_RETRIES: Final = 2
"""Of one change, until a resume. Chosen: what is still disturbed then waits for a quieter machine,
which only whoever resumes knows of."""


def due_retry(
    campaign: Campaign, *, likely: bool = False, resumed: bool = False
) -> Proposal | None:
    """The unproven change to be judged again; None if there is none.

    Whoever was judged again least often comes first, of these the most promising.

    Args:
        campaign: so far.
        likely: only one whose whole interval is a gain, and once something else was judged: it goes
            ahead of new ideas, which may never end.
        resumed: as a resume would find it.
    """
    edge = 1 + campaign.started.target.keep.noise_band
    waiting = [
        (-tried, promise(round_), round_)
        for round_, tried in _unproven(campaign, resumed=resumed)
        if not likely or (promise(round_)[0] > edge and round_ is not campaign.rounds[-1])
    ]
    if not waiting:
        return None
    *_, round_ = max(waiting, key=lambda found: found[:2])
    doubt = doubt_about(round_, campaign)
    again = f"round {round_.round} proved nothing" + (f": {doubt.why}" if doubt else "")
    return Proposal(
        hypothesis=round_.hypothesis.model_copy(update={"again": again}),
        candidate=round_.candidate,
        base=round_.base,
        proposer=round_.proposer,
        formatting=round_.formatting,
    )


def _unproven(campaign: Campaign, *, resumed: bool) -> Iterator[tuple[Round, int]]:
    """Changes of the kernel that holds, each where its very code was judged last, and retries."""
    policy, since = campaign.started.target.keep, _last_resume(campaign, resumed=resumed)
    refused = {refusal.candidate_id for refusal in campaign.refusals}
    judged: dict[str, list[Round]] = {}
    for round_ in campaign.remembered:
        if round_.incumbent_id == campaign.incumbent.id and not round_.is_own:
            judged.setdefault(round_.candidate.id, []).append(round_)
    for first, *again in judged.values():
        tried = sum(retry.round > since for retry in again)
        last = (first, *again)[-1]
        if tried < MOST_RETRIES and last.proposed_id not in refused and is_unproven(last, policy):
            yield last, tried


def _last_resume(campaign: Campaign, *, resumed: bool) -> int:
    """The round after which the campaign was last resumed."""
    if resumed:
        return campaign.last_round
    resumes = (a.after_round for a in campaign.asides if isinstance(a.event, Resumed))
    return max(resumes, default=0)
