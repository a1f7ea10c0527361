"""The final kernel's own times, of the pairs that it was measured in beside the baseline. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from roofsmith.analysis.bounds import CANDIDATE, time_s
from roofsmith.analysis.statistics import median_interval
from roofsmith.domain.campaign import Stopped
from roofsmith.domain.comparison import Judgement, Timing, WorkloadComparison


def paired_timings(found: Judgement | None, error_rate: float) -> tuple[Timing, ...]:
    """A candidate's times in the pairs that count, with intervals; none where nothing counts."""
    if found is None or found.comparison is None:
        return ()
    times_s: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for pair in found.confirmation or found.samples:
        if pair.void is None:
            times_s[pair.workload].append(time_s(pair, CANDIDATE))
    return tuple(
        _timing(one, times_s[one.workload], error_rate) for one in found.comparison.workloads
    )


def was_alone(stopped: Stopped, error_rate: float) -> bool:
    """Whether the final kernel was measured on its own as well."""
    paired = paired_timings(stopped.against_baseline, error_rate)
    seen = {timing.samples_s for timing in paired}
    return any(timing.samples_s not in seen for timing in stopped.final_timings)


def _timing(
    seen: WorkloadComparison, times_s: Sequence[tuple[float, float]], error_rate: float
) -> Timing:
    least_s, most_s = zip(*times_s, strict=True)
    low, high = median_interval(least_s, error_rate)[0], median_interval(most_s, error_rate)[1]
    if not math.isfinite(low):
        low, high = min(least_s), max(most_s)
    return Timing(
        workload=seen.workload, dims=seen.dims, config_class=seen.config_class,
        time_s=seen.candidate_time_s, ci=(low, high), samples_s=most_s,
        floor_time_s=seen.floor_time_s,
    )  # fmt: skip
