"""What a proposer may cite of a campaign, each line under an id that the brief shows. Pure."""

from __future__ import annotations

from roofsmith.ports import Brief

MOST_COUNTERS = 12
"""Counters that a brief shows; the others are behind `roofsmith show DIR counters`."""


def evidence_of(brief: Brief) -> dict[str, str]:
    """Id to text: E for the bottleneck's evidence, C for counters, B for bounds, R for rounds.

    Ids of a round keep their meaning for good; the others hold for this incumbent.
    """
    found = {f"E{n}": text for n, text in enumerate(brief.bottleneck.evidence, start=1)}
    counters = brief.profile.counters[:MOST_COUNTERS]
    for number, counter in enumerate(counters, start=1):
        found[f"C{number}"] = f"{counter.name}: {counter.value:.6g} {counter.unit}".rstrip()
    for number, bound in enumerate(brief.bounds, start=1):
        floor = "UNKNOWN" if bound.floor_time_s is None else f"{bound.floor_time_s:.4g} s"
        found[f"B{number}"] = f"{bound.workload}: {bound.limiter}-bound, at least {floor}"
    for round_ in brief.remembered:
        found[f"R{round_.round}"] = f"{round_.hypothesis.statement}: {round_.decision.rule}"
    return found
