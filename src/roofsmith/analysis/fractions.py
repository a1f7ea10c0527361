"""How near to the roofline a kernel is: one figure for several workloads."""

from __future__ import annotations

from collections.abc import Iterable

from roofsmith.analysis.roofline import geometric_mean
from roofsmith.domain.bound import Bound
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.comparison import Comparison, Timing


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
