"""Rates that a time amounts to, and how near they come to the measured ceilings. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.domain.bound import Bound
from roofsmith.domain.facts import Fact


@dataclass(frozen=True, slots=True)
class Rates:
    """What a kernel achieves on one workload; None is UNKNOWN."""

    rate_byte_per_s: float | None
    bandwidth_fraction: float | None
    """Of the measured bandwidth."""
    rate_flop_per_s: float | None
    peak_fraction: float | None
    """Of the measured peak."""


def rates(bound: Bound, time_s: float) -> Rates:
    """The work that a workload can't do without, over the time that a kernel took for it."""
    moved, flops = _over(bound.cost.total_bytes, time_s), _over(bound.cost.flops, time_s)
    return Rates(
        rate_byte_per_s=moved,
        bandwidth_fraction=_share(moved, bound.bandwidth),
        rate_flop_per_s=flops,
        peak_fraction=_share(flops, bound.peak),
    )


def _over(work: float | None, time_s: float) -> float | None:
    return None if work is None else work / time_s


def _share(rate: float | None, ceiling: Fact) -> float | None:
    return None if rate is None or not ceiling.value else rate / ceiling.value
