"""From raw pair samples to a comparison: per workload, per config class, and overall."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from roofsmith.analysis.bounds import (
    CANDIDATE,
    INCUMBENT,
    Bounds,
    bounds_of,
    exactly,
    mean_of,
    time_s,
)
from roofsmith.analysis.instances import widened
from roofsmith.analysis.statistics import median_interval
from roofsmith.domain.comparison import (
    ClassComparison,
    Comparison,
    Estimate,
    PairSample,
    Verdict,
    WorkloadComparison,
)
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.workload import ConfigClass, Workload

DISTURBED_SHARE = 0.5
"""Of the pairs; if more are void, the rest says nothing good of anybody."""
LOOK_ERROR_RATE = 0.1
"""Of either side of a look's interval, which decides nothing. Chosen: five pairs give one then."""
LOW, HIGH = 0, 2
"""Ends of `Bounds`."""
LARGEST_RATIO = 1000.0
"""It, or its inverse, stands for an interval's open side: too few pairs to say anything, or waiting
that leaves hardly anything of a time."""


def is_disturbed(samples: Sequence[PairSample]) -> bool:
    """Whether so many pairs are void that the others are no random sample of them any more."""
    void = sum(sample.void is not None for sample in samples)
    return void > DISTURBED_SHARE * len(samples)


def is_hopeless(samples: Sequence[PairSample], most_sweeps: int) -> bool:
    """Whether it will be `is_disturbed` after so many sweeps even if no further pair is void."""
    workloads = len({sample.workload for sample in samples})
    void = sum(sample.void is not None for sample in samples)
    return void > DISTURBED_SHARE * most_sweeps * workloads


def compare(
    samples: Sequence[PairSample],
    workloads: Sequence[Workload],
    classes: Sequence[ConfigClass],
    floors: Mapping[str, float | None],
    policy: KeepPolicy,
    earlier: Sequence[Sequence[PairSample]] = (),
) -> Comparison | None:
    """What the valid samples say about candidate and incumbent.

    A pair counts as one log ratio, ln(incumbent / candidate), of the mean times per call of its two
    segments, within bounds where others disturbed it (see `analysis.bounds`). For a class and for
    the whole, the log ratios of one sweep's pairs are averaged first, so that their medians are
    geometric means over workloads; only complete sweeps count there.

    Args:
        samples: pairs as they were made, void ones included.
        workloads: all that were judged.
        classes: a partition of them.
        floors: roofline floor in seconds by workload label; None where it is UNKNOWN.
        policy: noise band and error rate, of all tries together.
        earlier: pairs of earlier tries at the same, oldest first; times are of the last try.

    Returns:
        None if there is a workload without a single valid pair.
    """
    tries = [_Try.of(one) for one in (*(one for one in earlier if one), samples)]
    labels = [workload.label for workload in workloads]
    last = tries[-1]
    if any(label not in last.ratios for label in labels) or not last.means(labels):
        return None
    class_of = {label: c.name for c in classes for label in c.workloads}
    return Comparison(
        overall=_estimated(tries, labels, policy),
        classes=tuple(
            ClassComparison(config_class=c.name, estimate=_estimated(tries, c.workloads, policy))
            for c in classes
        ),
        workloads=tuple(
            WorkloadComparison(
                dims=workload.dims,
                workload=workload.label,
                config_class=class_of[workload.label],
                estimate=_estimated(tries, [workload.label], policy),
                candidate_time_s=_typical_time_s(samples, workload.label, candidate=True),
                incumbent_time_s=_typical_time_s(samples, workload.label, candidate=False),
                floor_time_s=floors.get(workload.label),
            )
            for workload in workloads
        ),
    )


def glanced(
    samples: Sequence[PairSample],
    workloads: Sequence[Workload],
    classes: Sequence[ConfigClass],
    floors: Mapping[str, float | None],
    policy: KeepPolicy,
) -> Comparison | None:
    """The same of a look: of the workloads that it reached, at `LOOK_ERROR_RATE`."""
    reached = {sample.workload for sample in samples}
    if not reached:
        return None
    parts = [(c, tuple(label for label in c.workloads if label in reached)) for c in classes]
    return compare(
        samples,
        [workload for workload in workloads if workload.label in reached],
        [c.model_copy(update={"workloads": labels}) for c, labels in parts if labels],
        floors,
        policy.model_copy(update={"error_rate": LOOK_ERROR_RATE}),
    )


def estimate(
    log_ratios: Sequence[float], policy: KeepPolicy, instances: Sequence[int] | None = None
) -> Estimate:
    """Median ratio with its interval, and which side of the noise band it lies on.

    Args:
        log_ratios: ln(incumbent / candidate) of pairs or sweeps that nobody disturbed.
        policy: noise band and error rate.
        instances: which pair of processes made each; None: nobody knows, or all are of one.
    """
    return _estimate([exactly(log_ratios)], policy, instances)


def _estimate(
    tries: Sequence[Sequence[Bounds]], policy: KeepPolicy, instances: Sequence[object] | None
) -> Estimate:
    bounds = [one for of_try in tries for one in of_try]
    lows, highs = ([[one[end] for one in of_try] for of_try in tries] for end in (LOW, HIGH))
    middles = [one.middle for one in bounds]
    low, _ = median_interval(lows[-1], policy.error_rate, lows[:-1])
    _, high = median_interval(highs[-1], policy.error_rate, highs[:-1])
    if instances is not None:
        low, high = widened((low, high), bounds, instances)
    return Estimate(
        speedup=math.exp(middle := median(middles)),
        ci=(_end(low, middle), _end(high, middle)),
        pairs=len(bounds),
        verdict=verdict(low, high, policy.noise_band),
    )


def _estimated(tries: Sequence[_Try], labels: Sequence[str], policy: KeepPolicy) -> Estimate:
    found = [one.means(labels) for one in tries]
    instances = [
        (number, one.made_by[sweep])
        for number, (one, means) in enumerate(zip(tries, found, strict=True))
        for sweep in means
    ]
    return _estimate([list(means.values()) for means in found], policy, instances)


def is_open(found: Estimate) -> bool:
    """Whether an end of an interval is open, so that the ratio is known from one side at most."""
    return found.ci[0] == 1 / LARGEST_RATIO or found.ci[1] == LARGEST_RATIO


def is_win(comparison: Comparison) -> bool:
    """Whether there is a gain to be measured again: overall, or on a class at nobody's expense."""
    if comparison.overall.verdict == "faster":
        return True
    verdicts = {found.estimate.verdict for found in comparison.classes}
    return "faster" in verdicts and "slower" not in verdicts | {comparison.overall.verdict}


def leans_to_loss(found: Estimate, policy: KeepPolicy) -> bool:
    """Whether it isn't shown to be spared, and looks as if it paid half the noise band or more."""
    half = math.log1p(policy.noise_band) / 2
    return found.verdict == "inconclusive" and math.log(found.speedup) < -half


def leans_to_veto(
    workload: WorkloadComparison, before: WorkloadComparison | None, policy: KeepPolicy
) -> bool:
    """Whether a workload isn't shown to be spared, and looks as if it lost half the limit or more.

    The limit is `policy.veto_slowdown`. Halfway to it, who loses nothing is as seldom taken for a
    loser as who loses all of it is passed over. What noise does to one workload's median it seldom
    does twice: the mean of both measurements' estimates counts. That it is spared, only the one
    that counts can show, since a first one's interval is at a lenient rate.

    Args:
        workload: in the measurement that counts.
        before: in the one before it; None: there is none.
        policy: the target's.
    """
    limit = math.log1p(-policy.veto_slowdown)
    if math.log(workload.estimate.ci[0]) > limit:
        return False
    found = [w.estimate for w in (workload, before) if w is not None]
    return fmean(math.log(one.speedup) for one in found) < limit / 2


def is_in_doubt(comparison: Comparison, policy: KeepPolicy) -> bool:
    """Whether somebody may pay for a gain, so that more pairs are worth their time."""
    return any(leans_to_loss(c.estimate, policy) for c in comparison.classes) or any(
        leans_to_veto(w, None, policy) for w in comparison.workloads
    )


def diverges(comparison: Comparison) -> bool:
    """Whether some config classes gain and others lose."""
    verdicts = {found.estimate.verdict for found in comparison.classes}
    return {"faster", "slower"} <= verdicts


def counts_twice(comparison: Comparison) -> bool:
    """Whether something follows from a measurement, so that it is made again before it counts."""
    return is_win(comparison) or diverges(comparison)


def verdict(low: float, high: float, noise_band: float) -> Verdict:
    """Where an interval of a log ratio lies: beyond the band, inside it, or across its edge."""
    edge = math.log1p(noise_band)
    if low > edge:
        return "faster"
    if high < -edge:
        return "slower"
    if -edge <= low and high <= edge:
        return "tie"
    return "inconclusive"


@dataclass(frozen=True, slots=True)
class _Try:
    ratios: Mapping[str, Mapping[int, Bounds]]
    """Workload label to sweep to ln(incumbent / candidate)."""
    made_by: Mapping[int, int]
    """Sweep to pair of processes."""

    @staticmethod
    def of(samples: Sequence[PairSample]) -> _Try:
        ratios: dict[str, dict[int, Bounds]] = defaultdict(dict)
        for sample in samples:
            if sample.void is None:
                ratios[sample.workload][sample.sweep] = bounds_of(sample)
        return _Try(ratios, {sample.sweep: sample.instance for sample in samples})

    def means(self, labels: Sequence[str]) -> dict[int, Bounds]:
        """Mean log ratio over `labels` of every sweep that has a valid pair for each of them."""
        found = [self.ratios.get(label, {}) for label in labels]
        if len(found) == 1:
            return dict(found[0])
        sweeps = set(found[0]).intersection(*found[1:])
        return {sweep: mean_of([one[sweep] for one in found]) for sweep in sorted(sweeps)}


def _typical_time_s(samples: Sequence[PairSample], label: str, *, candidate: bool) -> float:
    return median(
        time_s(sample, CANDIDATE if candidate else INCUMBENT)[1]
        for sample in samples
        if sample.void is None and sample.workload == label
    )


def _end(log_ratio: float, middle: float) -> float:
    """An interval's, as a ratio; open where it is out of all proportion to the median."""
    if abs(log_ratio - middle) > math.log(LARGEST_RATIO):
        return LARGEST_RATIO if log_ratio > middle else 1 / LARGEST_RATIO
    return math.exp(log_ratio)
