"""How much each workload counts, where somebody says so: what of a comparison is decided on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from roofsmith.analysis.bounds import bounds_of
from roofsmith.analysis.compare import estimate, verdict
from roofsmith.domain.comparison import Comparison, Estimate, PairSample
from roofsmith.domain.target import KeepPolicy, Target

_ALIKE = 1e-9
"""Ratios that were computed from the same pairs."""


def shares(target: Target) -> dict[str, float]:
    """Of each workload, by label, as they add up to 1; empty: all count alike."""
    if not target.weights:
        return {}
    weights = {one.label: target.weights.get(one.label, 1.0) for one in target.workloads}
    total = sum(weights.values())
    return {label: weight / total for label, weight in weights.items()}


def by_weight(
    found: Comparison | None, target: Target, *measured: Sequence[PairSample]
) -> Comparison | None:
    """A comparison in which workloads count as the target says: those of no weight are left out.

    Args:
        found: in which all count alike.
        target: says how much each counts.
        measured: pairs, of which the first that `found` is of count. Of none, intervals are put
            together from those of the workloads, which makes them wider.
    """
    weights = shares(target)
    if found is None or not weights:
        return found
    counted = [one for one in found.workloads if weights.get(one.workload, 0)]
    classes = [
        one for one in found.classes if any(w.config_class == one.config_class for w in counted)
    ]

    def of(members: Sequence[str], alike: Estimate) -> Estimate:
        known = {label: weights[label] for label in members if weights.get(label)}
        if len({*known.values()}) == 1 and len(known) == len(members):
            return alike
        for samples in measured:
            pairs = _means(samples, dict.fromkeys(members, 1.0))
            if (
                pairs
                and abs(estimate([*pairs.values()], target.keep).speedup - alike.speedup) < _ALIKE
            ):
                made_by = {one.sweep: one.instance for one in samples}
                means = _means(samples, known)
                return estimate([*means.values()], target.keep, [made_by[one] for one in means])
        return _joined(found, known, target.keep)

    every = [one.workload for one in found.workloads]
    return found.model_copy(
        update={
            "overall": of(every, found.overall),
            "classes": tuple(
                one.model_copy(
                    update={
                        "estimate": of(
                            [
                                w.workload
                                for w in found.workloads
                                if w.config_class == one.config_class
                            ],
                            one.estimate,
                        )
                    }
                )
                for one in classes
            ),
            "workloads": tuple(counted),
        }
    )


def _means(samples: Sequence[PairSample], weights: Mapping[str, float]) -> dict[int, float]:
    """Log ratio of each sweep that has a valid pair for all of these."""
    ratios: dict[str, dict[int, float]] = {label: {} for label in weights}
    for one in samples:
        if one.void is None and one.workload in ratios:
            ratios[one.workload][one.sweep] = bounds_of(one).middle
    sweeps = set.intersection(*(set(one) for one in ratios.values())) if ratios else set()
    total = sum(weights.values())
    return {
        sweep: sum(weights[label] * ratios[label][sweep] for label in weights) / total
        for sweep in sorted(sweeps)
    }


def _joined(found: Comparison, weights: Mapping[str, float], policy: KeepPolicy) -> Estimate:
    parts = [
        (weights[one.workload], one.estimate) for one in found.workloads if one.workload in weights
    ]
    total = sum(weight for weight, _ in parts)

    def mean(ratios: Sequence[float]) -> float:
        pairs = zip(parts, ratios, strict=True)
        return sum(weight * math.log(ratio) for (weight, _), ratio in pairs) / total

    low, middle, high = (
        mean([(one.ci[0], one.speedup, one.ci[1])[end] for _, one in parts]) for end in range(3)
    )
    return Estimate(
        speedup=math.exp(middle), ci=(math.exp(low), math.exp(high)),
        pairs=min(one.pairs for _, one in parts), verdict=verdict(low, high, policy.noise_band),
    )  # fmt: skip
