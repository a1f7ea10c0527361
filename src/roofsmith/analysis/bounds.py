"""What a pair says of two kernels although others took processors from them. Pure.

The scheduler tells how long threads were ready and had no processor. Without that a segment would
have taken less, by all of it at the most: at every moment its end waits for one thread, so that
what lengthens it is no more than the sum over threads. A true time per call therefore lies in
[t - waited, t], and never above t less the time in which none of its threads ran and one waited:
only others can have made that. The pessimistic end of both sides gives a log ratio that the true
one isn't below, and the optimistic end one that it isn't above.

Order statistics grow with each observation, so bounds of a median that are valid for the true log
ratios are valid, taken from the low ends, as a lower bound, and from the high ends as an upper one.

Nothing that a candidate can do raises the low end: threads of its own that keep one another
waiting count as its time there, and what made its rival wait is taken off its rival's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple

from roofsmith.domain.comparison import PairSample
from roofsmith.wording import plural

LEAST_S = 1e-9
"""That a call takes however long threads waited: no kernel is called and returns in less."""
INCUMBENT, CANDIDATE = 0, 1


class Bounds(NamedTuple):
    """Of a log ratio, ln(incumbent / candidate)."""

    low: float
    """The incumbent's least time over the candidate's longest."""
    middle: float
    """As it was timed, less what certainly wasn't theirs."""
    high: float


def exactly(log_ratios: Sequence[float]) -> list[Bounds]:
    """Of pairs that nobody disturbed."""
    return [Bounds(value, value, value) for value in log_ratios]


def bounds_of(pair: PairSample) -> Bounds:
    """What the log ratio of a pair lies between."""
    (least, most), (least_of_candidate, most_of_candidate) = (
        time_s(pair, side) for side in (INCUMBENT, CANDIDATE)
    )
    return Bounds(
        low=math.log(least / most_of_candidate),
        middle=math.log(most / most_of_candidate),
        high=math.log(most / least_of_candidate),
    )


def time_s(pair: PairSample, side: int) -> tuple[float, float]:
    """What a side's call took without others, at least and at most; seconds.

    The mean of its segment: so a call can't do the work of the ones after it and be left out.
    """
    timed_s = fmean(pair.candidate_time_s if side == CANDIDATE else pair.incumbent_time_s)
    return between_s(timed_s, pair.waited_s[side], pair.own_s[side])


def between_s(timed_s: float, waited_s: float, own_s: float | None) -> tuple[float, float]:
    """What took `timed_s` takes without others, at least and at most; see `PairSample`."""
    most = timed_s if own_s is None else min(timed_s, own_s)
    least = max(min(timed_s - waited_s, most), LEAST_S)
    return least, max(least, most)


def is_bounded(pair: PairSample) -> bool:
    """Whether others kept a thread of either side waiting, and it counts all the same."""
    return pair.void is None and any(pair.waited_s)


def waiting_of(pairs: Sequence[PairSample]) -> str:
    """How many pairs others disturbed, and how much, for people; empty if none."""
    found = [pair for pair in pairs if is_bounded(pair)]
    if not found:
        return ""
    shares = [min(max(_waiting_shares(pair)), 1.0) for pair in found]
    return (
        f"in {len(found)} of {plural(len(pairs), 'pair')} threads waited for a processor that"
        f" others had, typically for {median(shares):.0%} of the time"
    )


def _waiting_shares(pair: PairSample) -> tuple[float, float]:
    incumbent_s, candidate_s = fmean(pair.incumbent_time_s), fmean(pair.candidate_time_s)
    return pair.waited_s[0] / incumbent_s, pair.waited_s[1] / candidate_s


def mean_of(bounds: Sequence[Bounds]) -> Bounds:
    """Of several workloads' log ratios."""
    low, middle, high = (fmean(ends) for ends in zip(*bounds, strict=True))
    return Bounds(low, middle, high)
