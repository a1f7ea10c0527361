"""Whether a profiler's own times of kernels agree with a gain that the judge measured. Pure.

A profiler looks at one call or a few, on one workload, and under conditions of its own: ncu flushes
caches and runs kernels one at a time, torch and rocprofv3 trace calls on the same arrays. perf and
callgrind count what a processor does and time nothing, so they have no say here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roofsmith.domain.comparison import Comparison
from roofsmith.domain.profile import KERNEL_TIME, KERNELS_PER_CALL, Profile
from roofsmith.domain.target import KeepPolicy

LEAST_SHARE = 0.5
"""Of the least gain that was proven on the workload: so much of it has to be the kernel's. Assumed,
like the two numbers below; no campaign on a GPU has tried them yet."""
PROFILER_NOISE = 0.05
"""A log ratio of two single calls under a profiler; a smaller gap isn't seen by it."""
SAME_CONDITIONS = 1.25
"""Where the incumbent takes longer than so many times what the judge measured, flushed caches or
clocks that haven't risen decide what the profiler sees, and its ratio is of something else."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """What the profiler saw of the incumbent and of the candidate."""

    incumbent: Profile
    candidate: Profile
    is_launch_timed: bool = False
    """Whether what is judged holds launching, too, which isn't the kernels' time."""

    @property
    def times_s(self) -> tuple[float, float] | None:
        """Of all kernels of a call, before and after; None unless both say the same thing."""
        before, after = self.incumbent, self.candidate
        if (before.tool, before.workload) != (after.tool, after.workload):
            return None
        before_s, after_s = before.get(KERNEL_TIME), after.get(KERNEL_TIME)
        return None if not before_s or not after_s else (before_s, after_s)


def profiler_objects(
    profiles: Sequence[Profiles], comparison: Comparison, policy: KeepPolicy
) -> str | None:
    """Why a profiler doesn't agree with a gain; None if it does, or can't tell."""
    for seen in profiles:
        if found := _slower(seen, policy) or _unseen(seen, comparison):
            return found
    return None


def _slower(seen: Profiles, policy: KeepPolicy) -> str | None:
    if seen.times_s is None or seen.times_s[1] <= seen.times_s[0] * (1 + policy.noise_band):
        return None
    return f"the profiler contradicts the gain: {_reading(seen)}, beyond the noise band"


def _unseen(seen: Profiles, comparison: Comparison) -> str | None:
    """A gain of the only kernel of a call that isn't there under the profiler.

    Of several kernels the judge also times what lies between them, and how they overlap.
    """
    one_kernel = (seen.incumbent.get(KERNELS_PER_CALL) or 1.0) <= 1
    label = seen.candidate.workload
    judged = next((w for w in comparison.workloads if w.workload == label), None)
    if seen.times_s is None or judged is None or not one_kernel or seen.is_launch_timed:
        return None
    before_s, after_s = seen.times_s
    share = before_s / judged.incumbent_time_s
    least = judged.estimate.ci[0]
    if share > SAME_CONDITIONS or least <= 1:
        return None
    missing = math.log(least) + math.log(min(share, 1.0)) - math.log(before_s / after_s)
    if missing <= max(PROFILER_NOISE, LEAST_SHARE * math.log(least)):
        return None
    return (
        f"the profiler doesn't see the gain: {_reading(seen)},"
        f" where {judged.estimate.speedup:.3f}x was measured"
    )


def _reading(seen: Profiles) -> str:
    assert seen.times_s is not None, "only of what was timed"
    before_s, after_s = seen.times_s
    tool, workload = seen.candidate.tool, seen.candidate.workload
    return f"{tool} sees {before_s:.4g} s become {after_s:.4g} s on {workload}"
