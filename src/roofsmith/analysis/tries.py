"""Tries of one change at one incumbent: they are one experiment, whose pairs count together. Pure.

Which ones count is nobody's choice, or the lucky ones would be chosen: all of the same built code
against the same incumbent, on the same machine, by the same judge, but for those that a disturbed
device ended, which kernels don't decide.
"""

from __future__ import annotations

from roofsmith.domain.campaign import Campaign, Resumed, Round
from roofsmith.domain.outcome import Unstable
from roofsmith.domain.proposal import Proposal


def earlier_tries(campaign: Campaign, made: Proposal | Round) -> tuple[Round, ...]:
    """Rounds of a change that is tried again, oldest first; masks and restarts hide none.

    A judge counts those alone that it judged itself: `judgement.judge`.
    """
    if made.is_own:
        return ()
    since = _last_move(campaign)
    return tuple(
        one
        for one in campaign.rounds
        if one.round > since
        and not one.is_own
        and (one.candidate.id, one.incumbent_id) == (made.candidate.id, campaign.incumbent.id)
        and one.judgement.validation == "full"
        and not isinstance(one.judgement.outcome, Unstable)
        and one.judgement.samples
    )


def _last_move(campaign: Campaign) -> int:
    """The round after which the campaign went on elsewhere, or with other software; 0: none."""
    started, since = campaign.started, 0
    place = started.environment.fingerprint, started.gpu
    for aside in campaign.asides:
        if isinstance(event := aside.event, Resumed):
            here = event.environment.fingerprint, event.gpu
            since, place = (since if here == place else aside.after_round), here
    return since
