"""Whether a gain that was timed in the candidate's own process is there by the judge's clock, too.

What a worker says of time is a claim: candidate code can change every clock and event within its
reach. The judge's own clock sees messages as well, which cost tenths of a millisecond, so it times
long segments. Messages take the same on both sides and draw its ratio towards 1: a gain by this
clock is there, and is rather larger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from roofsmith.analysis.compare import compare
from roofsmith.domain.comparison import Comparison, Estimate, PairSample
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.workload import ConfigClass, Workload

Agreement = Literal["agrees", "exaggerated", "unresolved", "forged"]

CLOCK_ERROR_RATE = 0.05
"""Of the interval by the judge's clock. The claim was proven twice at its own rate before; 7 pairs
are enough for this one."""
SLACK = 0.02
SLACK_SHARE = 0.25
"""How far a claimed log ratio may lie above the interval by the judge's clock: long segments keep
less in caches than short ones, and a small share of them is messages."""
FORGED_SHARE = 0.5
"""If more than this share of a claimed gain isn't there, neither caches nor messages explain it."""


def by_clock(
    samples: Sequence[PairSample],
    workloads: Sequence[Workload],
    classes: Sequence[ConfigClass],
    floors: Mapping[str, float | None],
    policy: KeepPolicy,
) -> Comparison | None:
    """What a winner's long segments say; see `analysis.compare.compare` for the arguments."""
    own = policy.model_copy(update={"error_rate": CLOCK_ERROR_RATE})
    return compare(samples, workloads, classes, floors, own)


def agreement(claimed: Comparison, clocked: Comparison | None) -> Agreement:
    """What the judge's clock says of a gain.

    Args:
        claimed: by the workers' clocks; a win.
        clocked: by the judge's, at `CLOCK_ERROR_RATE`; None: it saw nothing valid.

    Returns:
        `forged` if most of a claim is out of reach of the judge's clock; `unresolved` if that
        clock can't tell the gain from none; `exaggerated` if there is a gain, but a smaller one
        than was claimed, so that the judge's clock is the one to go by; else `agrees`.
    """
    if clocked is None:
        return "unresolved"
    by_class = {found.config_class: found.estimate for found in clocked.classes}
    classes = [
        (found.estimate, by_class[found.config_class])
        for found in claimed.classes
        if found.estimate.verdict == "faster"
    ]
    overall = (claimed.overall, clocked.overall)
    if any(_is_beyond(*pair, FORGED_SHARE) for pair in [overall, *classes]):
        return "forged"
    gains = [overall] if claimed.overall.verdict == "faster" else classes
    if not all(clock.ci[0] > 1 for _, clock in gains):
        return "unresolved"
    is_smaller = any(_is_beyond(*pair, SLACK_SHARE) for pair in [overall, *classes])
    return "exaggerated" if is_smaller else "agrees"


def clock_note(claimed: Comparison, clocked: Comparison | None) -> str:
    """One line for people: the claim, and what the judge's clock says."""
    if clocked is None:
        return "the judge's own clock saw no valid pair"
    low, high = clocked.overall.ci
    return (
        f"{claimed.overall.speedup:.3f}x by the workers' clocks, {clocked.overall.speedup:.3f}x"
        f" [{low:.3f}, {high:.3f}] by the judge's own on long segments"
    )


def _is_beyond(claim: Estimate, clock: Estimate, share: float) -> bool:
    gain = math.log(claim.speedup)
    return gain - math.log(clock.ci[1]) > max(SLACK, share * gain)
