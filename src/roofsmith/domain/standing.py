"""What a campaign's later records put in place of what it began with. Pure."""

from __future__ import annotations

from roofsmith.domain.campaign import Campaign, Committed, Resumed, Stopped
from roofsmith.domain.target import StopPolicy


def limits_in_force(campaign: Campaign) -> StopPolicy:
    """The target's, or what a resume put in their place."""
    events = (aside.event for aside in reversed(campaign.asides))
    said = (e.limits for e in events if isinstance(e, Resumed | Stopped))
    return next((limits for limits in said if limits), campaign.started.target.stop)


def branch_of(campaign: Campaign) -> str:
    """Where its commits are: a name that was taken is numbered."""
    events = (aside.event for aside in reversed(campaign.asides))
    said = (event.branch for event in events if isinstance(event, Committed))
    asked = campaign.started.target.branch or f"optimize/{campaign.started.campaign}"
    return next((name for name in said if name), asked)
