"""Which usual answers to a bottleneck neither a round nor the profile rules out. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.bottleneck import RULES
from roofsmith.analysis.stagnation import open_directions
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.category import Category
from roofsmith.domain.profile import Profile
from roofsmith.domain.refusal import Refusal, RefusalReason
from roofsmith.report.summary import SummaryStep

_MOST_DIRECTIONS = 3  # chosen: what a reader takes in at once
SAME_AGAIN: Final[tuple[RefusalReason, ...]] = ("no_change", "repeated")
"""Refusals of what had been tried, or is there already."""


def untried(campaign: Campaign, steps: tuple[SummaryStep, ...], held: SummaryStep) -> str:
    """Kinds of changes that answer it and that neither a round nor the profile speaks against."""
    assert held.bottleneck_after is not None, "only of a kernel that was profiled"
    tried: dict[Category, list[str]] = defaultdict(list)
    for step in steps:
        if step.hypothesis is not None:
            tried[step.hypothesis.category].append(f"round {step.number} {step.status}")
    for refusal in campaign.refusals:
        if refusal.hypothesis is not None and refusal.reason in SAME_AGAIN:
            tried[refusal.hypothesis.category].append(_told(refusal))
    against = dict(_contradicted(held.profile_after))
    offered = open_directions(campaign, (held.bottleneck_after,))
    open_ = [d for d in offered if d.category not in tried and d.seen is None]
    words = [d.what for d in open_ if d.category not in against][:_MOST_DIRECTIONS]
    said = f"Untried: {' '.join(words)}" if words else "None of the usual answers is untried."
    tried.pop("other", None)  # says nothing of what it was
    if tried:
        past = "; ".join(f"{_called(name)} ({', '.join(at)})" for name, at in tried.items())
        said += f" Tried: {past}."
    ruled_out = [
        f"{_called(d.category)} ({against[d.category]})" for d in open_ if d.category in against
    ]
    return f"{said} Its profile speaks against {', '.join(ruled_out)}." if ruled_out else said


def _contradicted(profile: Profile | None) -> Iterator[tuple[Category, str]]:
    """Kinds of changes that counters speak against, and how. By the bottleneck's thresholds."""
    if profile is None:
        return
    packed = profile.get("vector_fraction")
    packed = profile.get("vector_instruction_share_static") if packed is None else packed
    if packed is not None and packed >= RULES.scalar_below:
        yield "vectorisation", f"{fmt.percent(packed)} of floating-point instructions are packed"
    used, allowed = profile.get("processors_used"), profile.get("processors_allowed")
    if used is not None and allowed and used >= RULES.idle_below * allowed:
        yield "parallelism", f"{used:.1f} of {allowed:.0f} processors are busy"
    misses = profile.get("cache_misses_per_kilo_instruction")
    misses = profile.get("l1_misses_per_kilo_instruction") if misses is None else misses
    if misses is not None and misses < RULES.many_misses_per_kilo:
        yield "prefetch", f"{misses:.1f} cache misses per 1000 instructions"


def _told(refusal: Refusal) -> str:
    return f"{refusal.reason.replace('_', ' ')} after round {refusal.after_round}"


def _called(category: Category) -> str:
    return category.replace("_", " ")
