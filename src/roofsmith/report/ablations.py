"""What each kept change brings to the final kernel, for people. Pure."""

from __future__ import annotations

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.ablation import CarriedGain, carried
from roofsmith.domain.campaign import Campaign


def carried_lines(campaign: Campaign) -> tuple[str, ...]:
    """A line for each kept change; none where nothing was left out to see."""
    return tuple(
        f"round {one.change.round} ({one.change.hypothesis.statement}): {_finding(one)}"
        for one in carried(campaign)
    )


def _finding(one: CarriedGain) -> str:
    ratio = "" if one.speedup is None or one.ci is None else fmt.ratio(one.speedup, one.ci)
    match one.finding:
        case "carries":
            return f"carries {ratio}, by round {one.seen_in}"
        case "left_out":
            return f"carries nothing any more ({ratio}): left out in round {one.seen_in}"
        case "open":
            return f"open, {ratio or 'not measured'} in round {one.seen_in}: it stays"
        case "needed":
            return f"the kernel fails without it, in round {one.seen_in}"
        case "built_upon":
            return "not taken out: later changes touch the same lines"
        case "unseen":
            return "not looked at: no room was left within the limits"
