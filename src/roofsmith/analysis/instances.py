"""What pairs of processes differ by: an interval must hold it, however many pairs each one made.

Where a process's code and pages happen to lie makes it faster or slower for its whole life. On an
H100 two processes with the same kernel differ by 0.2 to 0.4% on calls of 50 us and by 2 to 3% on
calls of 6 us; more samples of the same processes don't remove that, more processes do.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import median, stdev

from roofsmith.analysis.bounds import Bounds

LEAST_INSTANCES = 4
"""Fewer say too little about how processes differ to widen an interval by it."""

_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131,
)  # fmt: skip
"""97.5% quantiles of Student's t for 1 to 15 degrees of freedom (NIST/SEMATECH e-Handbook of
Statistical Methods, 1.3.6.7.2)."""


def widened(
    interval: tuple[float, float], values: Sequence[Bounds], instances: Sequence[object]
) -> tuple[float, float]:
    """An interval for the median of `values` that holds the differences between processes, too.

    The medians of the instances are one observation each: Student's t interval of 95% around the
    median of all values, joined with the given one. A winner is measured twice, in processes of its
    own each time, so that both would have to be off to the same side. Pairs that others disturbed
    say nothing of how processes differ.

    Args:
        interval: what the values say if they are independent.
        values: observations: log ratios.
        instances: which pair of processes made each of them.
    """
    groups: dict[object, list[float]] = defaultdict(list)
    for value, instance in zip(values, instances, strict=True):
        if value.low == value.high:
            groups[instance].append(value.middle)
    # The median of an instance most of whose pairs were disturbed says little about it.
    fullest = max(map(len, groups.values()), default=0)
    medians = [median(group) for group in groups.values() if 2 * len(group) >= fullest]
    if len(medians) < LEAST_INSTANCES:
        return interval
    half = t_975(len(medians) - 1) * stdev(medians) / math.sqrt(len(medians))
    low, _, high = (median(ends) for ends in zip(*values, strict=True))
    return min(interval[0], low - half), max(interval[1], high + half)


def t_975(degrees: int) -> float:
    """The 97.5% quantile of Student's t; beyond the table, from above by less than 1%."""
    if degrees <= len(_T_975):
        return _T_975[degrees - 1]
    return 1.96 + 2.6 / degrees
