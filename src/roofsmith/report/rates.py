"""Rates that a time amounts to, and how near they come to either kind of ceiling. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from roofsmith.domain.bound import Bound, CeilingKind, CeilingPair
from roofsmith.domain.facts import Fact


@dataclass(frozen=True, slots=True)
class Rates:
    """What a kernel achieves on one workload; None is UNKNOWN."""

    rate_byte_per_s: float | None
    bandwidth_fraction: float | None
    """Of the bandwidth that this machine was measured at."""
    datasheet_bandwidth_fraction: float | None
    """Of the bandwidth that the product's datasheet cites."""
    rate_flop_per_s: float | None
    peak_fraction: float | None
    """Of the measured peak."""
    datasheet_peak_fraction: float | None
    """Of the datasheet's."""


def rates(bound: Bound, time_s: float) -> Rates:
    """The work that a workload can't do without, over the time that a kernel took for it.

    Both kinds of ceiling count, whichever of them the bound's floor stands on.
    """
    moved, flops = _over(bound.cost.total_bytes, time_s), _over(bound.cost.flops, time_s)
    measured, cited = measured_ceilings(bound), bound.datasheet
    return Rates(
        rate_byte_per_s=moved,
        bandwidth_fraction=_share(moved, measured.bandwidth),
        datasheet_bandwidth_fraction=_share(moved, cited.bandwidth if cited else None),
        rate_flop_per_s=flops,
        peak_fraction=_share(flops, measured.peak),
        datasheet_peak_fraction=_share(flops, cited.peak if cited else None),
    )


def measured_ceilings(bound: Bound) -> CeilingPair:
    """What this machine was seen to do; records older than datasheets know of nothing else."""
    return bound.measured or CeilingPair(bandwidth=bound.bandwidth, peak=bound.peak)


def has_datasheet(bounds: Iterable[Bound]) -> bool:
    """Whether any figure can be held against a datasheet."""
    return any(
        fact.value
        for bound in bounds
        if bound.datasheet
        for fact in (bound.datasheet.bandwidth, bound.datasheet.peak)
    )


def ceilings_used(bounds: Iterable[Bound]) -> tuple[Fact, ...]:
    """Every ceiling that `rates` divides by, once, with its citation; those that are known."""
    pairs = [p for b in bounds for p in (measured_ceilings(b), b.datasheet) if p is not None]
    facts = (fact for pair in pairs for fact in (pair.bandwidth, pair.peak))
    return tuple({str(fact): fact for fact in facts if fact.value}.values())


def stood_on(bounds: Iterable[Bound], wanted: CeilingKind) -> str:
    """`measured ceilings`, or what floor and goal stand on where there are none as wanted."""
    as_wanted = [found for bound in bounds for found in _as_wanted(bound, wanted)]
    other = "datasheet" if wanted == "measured" else "measured"
    if all(as_wanted):
        return f"{wanted} ceilings"
    if any(as_wanted):
        return f"{wanted} ceilings and, where there is none, on the {other} one"
    return f"{other} ceilings, since there is no {wanted} one"


def _as_wanted(bound: Bound, wanted: CeilingKind) -> Iterator[bool]:
    """Of each ceiling that is known, whether it is of the kind that is wanted."""
    pair = measured_ceilings(bound) if wanted == "measured" else bound.datasheet
    if bound.bandwidth.value is not None:
        yield pair is not None and pair.bandwidth == bound.bandwidth
    if bound.peak.value is not None:
        yield pair is not None and pair.peak == bound.peak


def _over(work: float | None, time_s: float) -> float | None:
    return None if work is None else work / time_s


def _share(rate: float | None, ceiling: Fact | None) -> float | None:
    return None if rate is None or ceiling is None or not ceiling.value else rate / ceiling.value
