"""How near to the roofline a kernel is: one figure for several workloads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from roofsmith.analysis.roofline import geometric_mean
from roofsmith.domain.bound import Bound
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.comparison import Comparison, Timing
from roofsmith.domain.target import Goal

Work = Literal["flops", "bytes"]


def fraction_of_timings(timings: Iterable[Timing]) -> float | None:
    """Of a kernel that was measured on its own: geometric mean over workloads with a known floor.

    None: there is none.
    """
    return geometric_mean(_fraction(t.floor_time_s, t.time_s) for t in timings)


def fraction_of_candidate(comparison: Comparison) -> float | None:
    """The same of a comparison's candidate."""
    return geometric_mean(
        _fraction(w.floor_time_s, w.candidate_time_s) for w in comparison.workloads
    )


def fractions_within(comparison: Comparison | None) -> tuple[float, float] | None:
    """Of incumbent and candidate, by the same pairs: they compare whatever the clocks did before.

    None: nothing was compared, or no floor is known.
    """
    if comparison is None:
        return None
    before = geometric_mean(
        _fraction(w.floor_time_s, w.incumbent_time_s) for w in comparison.workloads
    )
    after = fraction_of_candidate(comparison)
    return None if before is None or after is None else (before, after)


def held_fraction(campaign: Campaign) -> float | None:
    """Of the incumbent, as it was last measured."""
    if campaign.rounds:
        return campaign.rounds[-1].roofline_fraction
    return fraction_of_timings(campaign.baseline.timings) if campaign.baseline else None


def rate_goals(goal: Goal) -> Iterator[tuple[Work, float, str]]:
    """The rates that are goals: of which work, how much, in which unit."""
    if goal.tflops is not None:
        yield "flops", goal.tflops, "TFLOP/s"
    if goal.gbs is not None:
        yield "bytes", goal.gbs, "GB/s"


def held_rate(campaign: Campaign, work: Work) -> float | None:
    """Of the incumbent, in TFLOP/s or GB/s: geometric mean over workloads of the work that none can
    do without over its time. None: of one of them nobody knows either."""
    times_s = campaign.times_s
    costs = [(bound.workload, bound.cost) for bound in campaign.started.bounds]
    amounts = {
        label: cost.flops / 1e12 if work == "flops" and cost.flops is not None
        else cost.total_bytes / 1e9 if work == "bytes" and cost.total_bytes is not None else None
        for label, cost in costs
    }  # fmt: skip
    if not amounts or any(not amount or label not in times_s for label, amount in amounts.items()):
        return None
    return geometric_mean((amount or 0.0) / times_s[label] for label, amount in amounts.items())


def final_fraction(campaign: Campaign) -> float | None:
    """The same for people: once the end has timed the final kernel alone, what came of that."""
    stopped = campaign.stopped
    if stopped is not None and stopped.final_timings:
        return fraction_of_timings(stopped.final_timings)
    return held_fraction(campaign)


def attainable_name(bounds: Iterable[Bound]) -> str:
    """What the attainable share is a share of: memory has a bandwidth, a compute roof has none."""
    measured = [bound for bound in bounds if bound.attainable_s is not None]
    is_memory = all(bound.limiter == "memory" for bound in measured)
    return "attainable bandwidth" if is_memory else "attainable roof"


def attainable_share(fraction: float | None, bounds: Iterable[Bound]) -> float | None:
    """What a share of the roofline is of what memory gives under the judge's conditions.

    None: the share is UNKNOWN, or nobody measured what memory gives.

    Args:
        fraction: geometric mean over the workloads with a known floor.
        bounds: of all workloads.
    """
    floors = [(bound.floor_time_s, bound.attainable_s) for bound in bounds if bound.floor_time_s]
    if fraction is None or all(attainable_s is None for _, attainable_s in floors):
        return None
    longer = geometric_mean((reached_s or floor_s) / floor_s for floor_s, reached_s in floors)
    return None if longer is None else fraction * longer


def _fraction(floor_time_s: float | None, time_s: float) -> float | None:
    return None if floor_time_s is None else floor_time_s / time_s
