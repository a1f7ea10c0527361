"""What a command target's own profiler says of a gain that its benchmark reported. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roofsmith.analysis.clock import CLOCK_ERROR_RATE
from roofsmith.analysis.compare import estimate
from roofsmith.domain.command import KernelPair
from roofsmith.domain.comparison import Estimate
from roofsmith.domain.target import KeepPolicy


def kernel_estimate(pairs: Sequence[KernelPair], policy: KeepPolicy) -> Estimate | None:
    """The ratio of mean kernel times, incumbent over candidate; None without pairs.

    The interval is at 5% per side: the claim was proven twice at its own rate before.
    """
    if not pairs:
        return None
    logs = [math.log(pair.incumbent_time_s / pair.candidate_time_s) for pair in pairs]
    return estimate(logs, policy.model_copy(update={"error_rate": CLOCK_ERROR_RATE}))


def kernels_object(
    pairs: Sequence[KernelPair], policy: KeepPolicy, target_class: str
) -> tuple[str, bool] | None:
    """Why the profiler doesn't confirm a gain, and whether it saw a slowdown; None if it does.

    A gain of the whole has to be one of the kernels, beyond the noise band. One number per run
    can't tell classes apart: where one class should gain, the kernels must not be slower together.

    Args:
        pairs: runs under the profiler; none: there is no profiler, so it has nothing to say.
        policy: noise band.
        target_class: what should gain.
    """
    found = kernel_estimate(pairs, policy)
    if found is None or found.verdict == "faster":
        return None
    slower = found.verdict == "slower"
    if target_class != "global" and not slower and found.speedup > 1:
        return None
    low, high = found.ci
    return (
        f"the target's profiler doesn't confirm it: {found.verdict},"
        f" {found.speedup:.3f}x [{low:.3f}, {high:.3f}] by mean kernel time",
        slower,
    )
