"""Confidence intervals for a median that stay valid however often one looks at them.

A sign-test martingale: under "the median is at most m", each new observation exceeds m with
probability at most 1/2, whatever the distribution and its outliers. Betting against that, half of
the stake on "every observation exceeds m", the other half spread uniformly over success
probabilities p in [1/2, 1], gives after n observations of which s exceed m the wealth

    E(n, s) = 2^n / 2 if s = n, else 0
            + integral over [1/2, 1] of (2p)^s (2(1-p))^(n-s) dp
            = 2^n / 2 if s = n, else 0
            + sum of C(n+1, k) for k <= s, over 2 (n+1) C(n, s)

(from the relation between the incomplete beta function and the binomial distribution). Each half is
a supermartingale under the hypothesis, and so is their sum, which starts at 1. By Ville's
inequality it ever reaches 1/a with probability at most a: an analyst may stop at any time, for any
reason, and the error rate stays a. The first half decides on large effects soon; what it costs
small ones is a factor of 2 in the second's wealth. Inverting it over m gives order statistics, so
the interval needs no assumption on the shape of the noise. See Ville 1939; Howard and Ramdas,
"Sequential estimation of quantiles with applications to A/B testing and best-arm identification",
Bernoulli 28(3), 2022.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

MAX_TESTED = 100_000
"""More observations than anybody will time; beyond it the exact arithmetic gets slow."""


@lru_cache(maxsize=4096)
def wealth(observations: int, exceeding: int) -> float:
    """E(n, s): evidence against "the median is at most m", 1 meaning none.

    Args:
        observations: n, at least 0.
        exceeding: s, how many of them exceed m; 0 to n.
    """
    n, s = observations, exceeding
    tail = sum(math.comb(n + 1, k) for k in range(s + 1))
    below = (n + 1) * math.comb(n, s)
    try:
        return (tail / below + (2.0**n if s == n else 0.0)) / 2
    except OverflowError:
        return math.inf


@lru_cache(maxsize=4096)
def critical_count(observations: int, error_rate: float) -> int | None:
    """How many of n observations must exceed m to reject "the median is at most m".

    Returns:
        The least s with E(n, s) >= 1 / error_rate; None if even s = n isn't enough.
    """
    low, high = (observations + 1) // 2, observations
    if observations == 0 or wealth(observations, high) < 1 / error_rate:
        return None
    while low < high:
        middle = (low + high) // 2
        if wealth(observations, middle) >= 1 / error_rate:
            high = middle
        else:
            low = middle + 1
    return low


@lru_cache(maxsize=64)
def least_observations(error_rate: float) -> int:
    """The fewest observations that can reject anything: 9 at a rate of 0.005, 5 at 0.05."""
    return next(n for n in range(1, MAX_TESTED) if critical_count(n, error_rate) is not None)


def wealth_after(tries: Sequence[tuple[int, int]]) -> float:
    """What one stake has become after several tries at the same question.

    A try begins by dividing what there is: half stays on the bets that run, which see its
    observations as more of theirs, and half begins anew. Each bet is a supermartingale under the
    hypothesis, and dividing changes no sum, so that their sum is one over all tries: Ville's
    inequality holds it once, however many tries there are and whenever one is begun. The half that
    begins anew learns soon from a quiet try what a busy one before it couldn't show; that costs no
    more than twice the wealth's loss by then, which is a factor of 2 (n + 1) at the most.

    Args:
        tries: of each, in order, observations and how many of them exceed m.
    """
    bets: list[tuple[float, int, int]] = []
    total = 1.0
    for observations, exceeding in tries:
        new = total / 2 if bets else total
        running = [(stake / 2, n + observations, s + exceeding) for stake, n, s in bets]
        bets = [*running, (new, observations, exceeding)]
        total = sum(stake * wealth(n, s) for stake, n, s in bets)
    return total


def median_interval(
    values: Sequence[float], error_rate: float, earlier: Sequence[Sequence[float]] = ()
) -> tuple[float, float]:
    """Anytime-valid bounds for the median of what `values` are drawn from.

    Args:
        values: observations in the order they were made, in any unit.
        error_rate: chance that the lower bound is ever too high, and likewise the upper too low.
        earlier: observations of the same in earlier tries; the rate is that of all together.

    Returns:
        Two order statistics of `values`; infinite bounds while there are too few.
    """
    if earlier:
        tries = [sorted(one) for one in (*earlier, values)]
        turned = [[-value for value in reversed(one)] for one in tries]
        return _lower_bound(tries, error_rate), -_lower_bound(turned, error_rate)
    count = critical_count(len(values), error_rate)
    if count is None:
        return -math.inf, math.inf
    ordered = sorted(values)
    return ordered[len(ordered) - count], ordered[count - 1]


def _lower_bound(tries: Sequence[Sequence[float]], error_rate: float) -> float:
    """The highest of ordered observations below which all medians are rejected; see `wealth`."""
    values = sorted({value for one in tries for value in one})

    def stands(value: float) -> bool:
        counts = [(len(one), len(one) - bisect_left(one, value)) for one in tries]
        return wealth_after(counts) < 1 / error_rate

    rejected = bisect_left(values, True, key=stands)
    return values[rejected - 1] if rejected else -math.inf
