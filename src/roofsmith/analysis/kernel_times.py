"""What a command target's own profiler says of a gain that its benchmark reported. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roofsmith.analysis.clock import CLOCK_ERROR_RATE
from roofsmith.analysis.compare import LARGEST_RATIO, estimate
from roofsmith.domain.command import RunPair
from roofsmith.domain.comparison import Comparison, Estimate, Judgement
from roofsmith.domain.target import KeepPolicy

KERNELS_COUNT = 2
"""The version of the rules from which on totals are products of the profiler's ratios, where a
target names a profiler; before, of the script's."""


def kernel_estimate(pairs: Sequence[RunPair], policy: KeepPolicy) -> Estimate | None:
    """The ratio of mean kernel times, incumbent over candidate; None without pairs.

    The interval is at 5% per side: the claim was proven twice at its own rate before.
    """
    if not pairs:
        return None
    logs = [math.log(pair.incumbent_time_s / pair.candidate_time_s) for pair in pairs]
    return estimate(logs, policy.model_copy(update={"error_rate": CLOCK_ERROR_RATE}))


def kernels_have_spoken(
    pairs: Sequence[RunPair], claimed: Comparison | None, policy: KeepPolicy
) -> bool:
    """Whether further pairs would change nothing about what the profiler says of a gain; of a loss,
    where no gain is claimed."""
    found = kernel_estimate(pairs, policy)
    if found is None or found.ci[0] == 1 / LARGEST_RATIO:
        return False
    if claimed is None:
        return found.verdict != "inconclusive"
    if found.verdict in ("faster", "slower") or found.ci[1] < 1:
        return True
    if claimed.overall.verdict == "faster":
        return found.verdict == "tie"
    return found.ci[0] > 1


def overall_gain(judgement: Judgement, rules: int) -> float:
    """What a kept judgement multiplies a campaign's total by; 1.0 if it came to no comparison."""
    found = kernel_estimate(judgement.kernels, KeepPolicy()) if rules >= KERNELS_COUNT else None
    if found is None:
        found = judgement.comparison.overall if judgement.comparison is not None else None
    return found.speedup if found is not None else 1.0


def kernels_object(
    pairs: Sequence[RunPair], policy: KeepPolicy, target_class: str
) -> tuple[str, bool] | None:
    """Why the profiler doesn't confirm a gain, and whether it saw a slowdown; None if it does.

    A gain of the whole has to be one of the kernels, beyond the noise band. One number per run
    can't tell classes apart: what one class gains is thinned by all others, so that any gain of all
    kernels together will do there, if the interval shows it.

    Args:
        pairs: runs under the profiler; none: there is no profiler, so it has nothing to say.
        policy: noise band.
        target_class: what should gain.
    """
    found = kernel_estimate(pairs, policy)
    if found is None or found.verdict == "faster":
        return None
    slower = found.verdict == "slower"
    if target_class != "global" and found.ci[0] > 1:
        return None
    low, high = found.ci
    return (
        f"the target's profiler doesn't confirm it: {found.verdict},"
        f" {found.speedup:.3f}x [{low:.3f}, {high:.3f}] by mean kernel time",
        slower,
    )
