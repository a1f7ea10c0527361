"""How much each workload counts, where somebody says so: what of a comparison is decided on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from roofsmith.analysis.bounds import bounds_of
from roofsmith.analysis.compare import estimate
from roofsmith.domain.comparison import Comparison, Estimate, PairSample
from roofsmith.domain.target import Target

_ALIKE = 1e-9
"""Ratios that were computed from the same pairs."""


def shares(target: Target) -> dict[str, float]:
    """Of each workload, by label, as they add up to 1; empty: all count alike, also where only such
    count whose inputs can't vary."""
    weights = {one.label: target.weights.get(one.label, 1.0) for one in target.workloads}
    total = sum(weights.values()) if target.weights else 0.0
    return {label: weight / total for label, weight in weights.items() if total}


def by_weight(
    found: Comparison | None, target: Target, *measured: Sequence[PairSample]
) -> Comparison | None:
    """A comparison in which workloads count as the target says: those of no weight are left out.

    Args:
        found: in which all count alike.
        target: says how much each counts.
        measured: pairs by one clock and by another; those count that `found` is of.
    """
    weights = shares(target)
    if found is None or not weights:
        return found
    members = defaultdict(list)
    for one in found.workloads:
        members[one.config_class].append(one.workload)
    counted = [one for one in found.workloads if weights.get(one.workload)]

    def of(labels: Sequence[str], alike: Estimate) -> Estimate:
        known = {label: weights.get(label, 0.0) for label in labels}
        if len({*known.values()}) == 1:
            return alike
        found = alike
        for samples in measured:
            pairs = _means(samples, dict.fromkeys(labels, 1.0))
            if not pairs:
                continue
            means, made_by = _means(samples, known), {one.sweep: one.instance for one in samples}
            found = estimate([*means.values()], target.keep, [made_by[one] for one in means])
            if abs(estimate([*pairs.values()], target.keep).speedup - alike.speedup) < _ALIKE:
                break
        return found

    classes = tuple(
        one.model_copy(update={"estimate": of(members[one.config_class], one.estimate)})
        for one in found.classes if any(map(weights.get, members[one.config_class]))
    )  # fmt: skip
    overall = of([one.workload for one in found.workloads], found.overall)
    changed = {"overall": overall, "classes": classes, "workloads": tuple(counted)}
    return found.model_copy(update=changed)


def _means(samples: Sequence[PairSample], weights: Mapping[str, float]) -> dict[int, float]:
    """Mean log ratio of each sweep that has a valid pair for all of these."""
    ratios: dict[int, dict[str, float]] = defaultdict(dict)
    for one in samples:
        if one.void is None and one.workload in weights:
            ratios[one.sweep][one.workload] = bounds_of(one).middle
    total = sum(weights.values())
    return {
        sweep: sum(weights[label] * ratio for label, ratio in of.items()) / total
        for sweep, of in sorted(ratios.items()) if of.keys() == weights.keys()
    }  # fmt: skip
