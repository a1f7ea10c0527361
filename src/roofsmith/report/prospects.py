"""What a round hopes for, risks and leaves open: for its plan and its note. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roofsmith.analysis import figures as fmt
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.knowledge import library_arch
from roofsmith.domain.memory import OpenDirection
from roofsmith.domain.outcome import BuildFailed, Crashed, Incorrect
from roofsmith.domain.profile import BottleneckKind
from roofsmith.report.summary import SummaryStep

MOST_DIRECTIONS = 3


def expected_impact(step: SummaryStep) -> str:
    """What the hypothesis promises: why, which counter, how much."""
    hypothesis = step.hypothesis
    assert hypothesis is not None, "the baseline promises nothing"
    parts = [hypothesis.rationale.rstrip(".")]
    if hypothesis.expected_counter:
        ratio = hypothesis.expected_delta
        change = hypothesis.expected_change or (f"to {ratio:.3g} of it" if ratio else "moves")
        parts.append(f"{hypothesis.expected_counter}: {change}")
    if hypothesis.predicted_speedup is not None:
        parts.append(f"predicted {fmt.speedup(hypothesis.predicted_speedup)}")
    return "; ".join(parts)


def risks(step: SummaryStep) -> str:
    """What would undo the change, and what undoing means."""
    hypothesis = step.hypothesis
    assert hypothesis is not None, "the baseline risks nothing"
    whom = (
        "a config class or a workload may lose"
        if hypothesis.target_class == "global"
        else f"it is meant for {hypothesis.target_class}, and other classes may lose"
    )
    doubt = (
        ""
        if hypothesis.answers == "unknown"
        else f"; the {hypothesis.answers} bottleneck may not be what holds it back"
    )
    return (
        f"Outputs may leave the error budget; {whom}{doubt}. Whatever of it comes true, the "
        f"worktree goes back to candidate {step.incumbent_id}"
    )


def open_directions(step: SummaryStep) -> tuple[OpenDirection, ...]:
    """What a round leaves open, the most promising first."""
    return tuple(_directions(step))[:MOST_DIRECTIONS]


def _directions(step: SummaryStep) -> Iterator[OpenDirection]:
    if step.wants_dispatch:
        won = ", ".join(step.winners)
        yield OpenDirection(
            direction=f"run this kernel for {won} alone, and the incumbent for the others",
            rationale="some classes were faster and others slower",
        )
    if isinstance(step.outcome, Incorrect | BuildFailed | Crashed):
        yield OpenDirection(
            direction=f"repair it: {step.title}",
            rationale="it was never measured, so nothing is known against the idea",
        )
    if step.is_incumbents:
        yield OpenDirection(
            direction=f"judge it again once the kernel that holds passes every time: {step.title}",
            rationale="the kernel that holds failed",
        )
    elif step.is_undecided:
        yield OpenDirection(
            direction=f"judge it again on a quieter machine: {step.title}",
            rationale="too noisy to decide",
        )
    held = step.bottleneck_after if step.mark in ("baseline", "kept") else step.bottleneck_before
    if held is not None:
        yield OpenDirection(
            direction=bottleneck_direction(held.kind),
            rationale="; ".join(held.evidence) or "by its profile",
        )


def bottleneck_direction(kind: BottleneckKind) -> str:
    """To answer what holds the kernel back."""
    return f"answer the {kind} bottleneck of the kernel that holds"


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
