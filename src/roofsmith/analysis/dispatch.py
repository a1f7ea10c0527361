"""Which rule over the dimensions tells the classes that gain from those that lose."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from roofsmith.domain.comparison import Comparison, Estimate, Verdict
from roofsmith.domain.dispatch import Dispatch, Listed, Rule, Threshold
from roofsmith.domain.workload import ConfigClass, Workload

Point = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Config classes that were faster in two measurements, and classes that were slower in both."""

    winners: tuple[str, ...]
    losers: tuple[str, ...]


def divergence(first: Comparison | None, second: Comparison | None) -> Divergence | None:
    """Who gains and who loses, in both measurements; None unless somebody does either.

    Args:
        first: what the first measurement's pairs say; None: it says nothing.
        second: what those say that were made again in fresh processes.
    """
    if first is None or second is None:
        return None
    winners, losers = (_in_both(first, second, side) for side in ("faster", "slower"))
    return Divergence(winners, losers) if winners and losers else None


def dispatch_of(
    round_number: int,
    found: Divergence,
    workloads: Sequence[Workload],
    classes: Sequence[ConfigClass],
    dims: Sequence[str],
) -> Dispatch | None:
    """Old kernel for who doesn't gain, new one for the winners; None if no rule tells them apart.

    Who neither gains nor loses stays with the old kernel.

    Args:
        round_number: the round whose kernel is the new one.
        found: who gained and who lost by it.
        workloads: all of the target's.
        classes: a partition of them.
        dims: dimensions that a kernel can see when it is called, in the target's order.
    """
    new = {label for c in classes if c.name in found.winners for label in c.workloads}
    gaining = [w.dims for w in workloads if w.label in new]
    others = [w.dims for w in workloads if w.label not in new]
    rule = rule_for(gaining, others, dims)
    if rule is None:
        return None
    sizes = {name: [w.dims[name] for w in workloads] for name in dims}
    return Dispatch(
        splits=round_number,
        rule=rule,
        within={name: (min(values), max(values)) for name, values in sizes.items()},
        new=found.winners,
        old=tuple(c.name for c in classes if c.name not in found.winners),
    )


def rule_for(gaining: Sequence[Point], others: Sequence[Point], dims: Sequence[str]) -> Rule | None:
    """The plainest rule that holds for all of `gaining` and for none of the `others`.

    A threshold on one dimension, else on the product of two, else a list. Of several thresholds of
    a kind, the one whose sides lie furthest apart; it lies at the gaining side's edge, so that what
    is in between runs the old kernel. None if two points look the same and belong to both sides.
    """
    for count in (1, 2):
        found = [
            t for names in combinations(dims, count) for t in _thresholds(names, gaining, others)
        ]
        if found:
            return max(found, key=lambda pair: pair[0])[1]
    points = list(dict.fromkeys(tuple(p[name] for name in dims) for p in gaining))
    if not dims or set(points) & {tuple(p[name] for name in dims) for p in others}:
        return None
    return Listed(points=tuple(dict(zip(dims, point, strict=True)) for point in points))


def gained_twice(first: Comparison | None, second: Comparison | None) -> tuple[str, ...]:
    """Config classes that were faster in both measurements; none unless there were two."""
    return _in_both(first, second, "faster") if first and second else ()


def promised_speedup(found: Divergence, comparison: Comparison) -> float:
    """Overall, if the winners gain what they gained and everybody else stays: a geometric mean."""
    logs = [
        math.log(w.estimate.speedup) if w.config_class in found.winners else 0.0
        for w in comparison.workloads
    ]
    return math.exp(math.fsum(logs) / len(logs))


def _in_both(first: Comparison, second: Comparison, side: Verdict) -> tuple[str, ...]:
    before = _by_class(first)
    return tuple(
        name
        for name, found in _by_class(second).items()
        if found.verdict == side and name in before and before[name].verdict == side
    )


def _by_class(comparison: Comparison) -> dict[str, Estimate]:
    return {found.config_class: found.estimate for found in comparison.classes}


def _thresholds(
    names: Sequence[str], gaining: Iterable[Point], others: Iterable[Point]
) -> list[tuple[float, Threshold]]:
    """Thresholds that tell the sides apart, with the ratio between the nearest of the two sides."""
    inside = [math.prod(point[name] for name in names) for point in gaining]
    outside = [math.prod(point[name] for name in names) for point in others]
    if min(inside) > max(outside):
        bound = min(inside)
        found = Threshold(dims=tuple(names), side="at_least", bound=bound)
        return [(bound / max(outside), found)]
    if max(inside) < min(outside):
        bound = max(inside)
        found = Threshold(dims=tuple(names), side="at_most", bound=bound)
        return [(min(outside) / bound, found)]
    return []
