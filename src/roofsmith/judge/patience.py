"""When a measurement has said enough, and how long it may go on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from roofsmith.analysis.clock import Clocked, has_spoken
from roofsmith.analysis.compare import is_disturbed, is_in_doubt, is_open, is_win
from roofsmith.analysis.statistics import least_observations, median_interval
from roofsmith.domain.comparison import Comparison, PairSample
from roofsmith.domain.target import KeepPolicy
from roofsmith.judge.timing.sampling import Progress
from roofsmith.ports import Observer

OVERTIME_FACTOR = 4.0
"""Once a measurement has taken this multiple of its time budget, it goes on only if pairs are slow
rather than disturbed, to get those that every measurement may have."""
LONGEST_S = 60.0
"""Nothing goes on beyond it."""
DISTURBED_S = 15.0
"""Nor does the parent's clock beyond this while most of its pairs are void. Chosen: a kernel whose
threads disturb their own measurement would hold the judge up for all of `LONGEST_S`."""
PATIENCE = 2
"""Multiple of the fewest pairs that can decide, which every measurement may have: with the fewest,
a single outlier hides a difference. Undecided classes are given up at it, too, and who has no gain
in sight."""
LEANING_PATIENCE = 12
"""The same where the ratio itself lies beyond the noise band and only its interval crosses the
edge. Without it 5 of 77 true slowdowns of 1% stayed undecided on an H100: the trials of the first
judge in benchmarks/results/gpu_judge_rates.json. With 4, as many as 45 of 200 true gains of 2% did
on a shared machine's processors: benchmarks/results/judge_rates_1_thread.json. What more of it
finds, and costs: benchmarks/results/gain_power.json."""
FUTILE_ERROR_RATE = 0.2
"""Of the interval that says that no gain is in sight: the chance, at most, that a gain just beyond
the noise band is given up. Chosen; how seldom gains are: benchmarks/results/gain_power.json."""
DOUBTING_PATIENCE = 7
"""The same where somebody seems to pay for a win; what it tells apart:
benchmarks/results/workload_veto.json."""
AGREEING = 0.05
"""Width of the interval of a kernel's own time at which no more of it is measured. Chosen: the
roofline is drawn by it, and nothing decided."""


@dataclass(frozen=True, slots=True)
class StoppingRules:
    """Of the measurements of one target."""

    keep: KeepPolicy
    compared: Callable[[Sequence[PairSample], KeepPolicy], Comparison | None]
    """What samples say under a policy."""
    by_clock: Callable[[Sequence[PairSample]], Clocked | None]
    """The same of long segments, by the parent's clock."""
    exact: bool
    """Whether a first measurement goes on until `keep.error_rate` decides."""

    def is_over(
        self,
        samples: Sequence[PairSample],
        comparison: Comparison | None,
        policy: KeepPolicy,
        spent_s: float,
    ) -> bool:
        """Whether pairs have said enough of a candidate, or as much as they may cost.

        Args:
            samples: of one measurement so far; those of earlier tries aren't there.
            comparison: what all tries say at the policy's error rate.
            policy: of this measurement.
            spent_s: on it so far; seconds.
        """
        budget_s = policy.judge_budget_s / 2
        least, strict = map(least_observations, (policy.error_rate, self.keep.error_rate))
        valid = len({s.sweep for s in samples} - {s.sweep for s in samples if s.void is not None})
        overtime = spent_s > OVERTIME_FACTOR * budget_s
        leans = _leans(comparison, policy) and not overtime
        enough = LEANING_PATIENCE * strict if leans else PATIENCE * least
        if spent_s > budget_s and (valid >= enough or spent_s > LONGEST_S):
            return True
        if overtime and is_disturbed(samples):
            return True
        if comparison is None:
            return False
        hopeless = not self.exact and valid >= PATIENCE * least and self.has_no_gain(samples)
        if hopeless:
            return True
        if comparison.overall.verdict == "inconclusive":
            return False
        doubt = is_win(comparison) and is_in_doubt(comparison, policy)
        if policy == self.keep and spent_s <= budget_s:  # people want both ends
            doubt |= is_open(comparison.overall)
        decided = all(found.estimate.verdict != "inconclusive" for found in comparison.classes)
        patience = DOUBTING_PATIENCE * strict if doubt else PATIENCE * least
        return (decided and not doubt) or samples[-1].sweep + 1 >= patience

    def has_no_gain(self, samples: Sequence[PairSample]) -> bool:
        """Whether neither the whole nor a class gains beyond the noise band, in all likelihood."""
        keep = self.keep
        found = self.compared(samples, keep.model_copy(update={"error_rate": FUTILE_ERROR_RATE}))
        if found is None:
            return False
        estimates = (found.overall, *(c.estimate for c in found.classes))
        return all(one.ci[1] <= 1 + keep.noise_band for one in estimates)

    def by_clock_until(self, claimed: Comparison | None) -> Progress:
        """Until the parent's clock agrees with a claim, or is sure that it doesn't."""

        def is_over(samples: Sequence[PairSample], spent_s: float) -> bool:
            longest_s = DISTURBED_S if is_disturbed(samples) else LONGEST_S
            if claimed is None or spent_s > longest_s:
                return True
            return has_spoken(claimed, samples, self.by_clock(samples))

        return is_over

    def alone_until(
        self, observer: Observer
    ) -> Callable[[int, Sequence[Sequence[float]], float], bool]:
        """Until there is enough of one kernel's own time: sweeps, times and seconds so far."""
        keep = self.keep
        least = least_observations(keep.error_rate)
        patience_s = OVERTIME_FACTOR * keep.judge_budget_s / 2

        def is_over(sweeps: int, times_s: Sequence[Sequence[float]], spent_s: float) -> bool:
            observer.progress(min(sweeps / least, 1.0))
            enough = sweeps >= least and (all(times_s) or spent_s > patience_s)
            return enough or spent_s > LONGEST_S or all(map(agree, times_s))

        def agree(times_s: Sequence[float]) -> bool:
            low, high = median_interval(times_s, keep.first.error_rate)
            return 0 < low <= high <= (1 + AGREEING) * low

        return is_over


def _leans(comparison: Comparison | None, policy: KeepPolicy) -> bool:
    """Whether more pairs will probably decide that there is a difference."""
    if comparison is None or comparison.overall.verdict != "inconclusive":
        return False
    return abs(math.log(comparison.overall.speedup)) > math.log1p(policy.noise_band)
