"""What a campaign doesn't know, and what it therefore doesn't say. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roofsmith.analysis import figures as fmt
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.knowledge import library_arch


@dataclass(frozen=True, slots=True)
class Pitfall:
    """Something that is missing, and what was done about it."""

    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.what}: {self.fix}"


def pitfalls(campaign: Campaign) -> tuple[Pitfall, ...]:
    """Facts that nobody could find, and the bounds that are missing or halved without them."""
    started = campaign.started
    used = (fact for bound in started.bounds for fact in (bound.bandwidth, bound.peak))
    missing = dict.fromkeys(f for f in (*started.facts.facts(), *used) if f.value is None)
    facts = (Pitfall(str(fact), "left UNKNOWN, nothing was guessed") for fact in missing)
    bounds = (
        Pitfall(
            f"{bound.workload}: {bound.reason or 'its bound is UNKNOWN'}",
            "no floor, limiter or share of the roofline is claimed"
            if bound.floor_time_s is None
            else "the floor rests on the known half alone",
        )
        for bound in started.bounds
        if bound.floor_time_s is None or None in (bound.bandwidth.value, bound.peak.value)
    )
    told = (*bounds, *_without_page(campaign))
    return (*facts, *(Pitfall(fmt.one_line(one.what), one.fix) for one in told))


def _without_page(campaign: Campaign) -> Iterator[Pitfall]:
    """An architecture that the library says nothing of, where it says anything."""
    directions = campaign.started.directions
    if directions and not any(one.page.startswith("hardware/") for one in directions):
        arch = library_arch(campaign.started.environment.device)
        yield Pitfall(f"the library has no page on {arch}", "what it says is of other devices, too")
