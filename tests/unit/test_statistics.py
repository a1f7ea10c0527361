from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from roofsmith.analysis.statistics import (
    critical_count,
    least_observations,
    median_interval,
    wealth,
    wealth_after,
)
from roofsmith.domain.outcome import Crashed, Unstable
from roofsmith.judge.timing.sampling import CANDIDATE, INCUMBENT, blame

ERROR_RATE = 0.005


def exact_wealth(n: int, s: int) -> Fraction:
    """The formula of the module, in exact arithmetic."""
    tail = sum(math.comb(n + 1, k) for k in range(s + 1))
    return (Fraction(tail, (n + 1) * math.comb(n, s)) + (2**n if s == n else 0)) / 2


@pytest.mark.parametrize(("n", "s"), [(0, 0), (1, 0), (1, 1), (5, 3), (11, 11), (40, 31), (60, 9)])
def test_wealth_is_the_integral_over_success_probabilities(n: int, s: int) -> None:
    nodes, weights = np.polynomial.legendre.leggauss(64)  # exact up to degree 127
    p = 0.75 + 0.25 * nodes
    integral = 2 * 0.25 * np.sum(weights * (2 * p) ** s * (2 * (1 - p)) ** (n - s))
    certain = 2.0**n if s == n else 0.0
    assert wealth(n, s) == pytest.approx((float(integral) + certain) / 2, rel=1e-10)


@given(st.integers(0, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_wealth_is_a_martingale_when_the_odds_are_even(at: tuple[int, int]) -> None:
    n, s = at
    now = exact_wealth(n, s)
    assert (exact_wealth(n + 1, s + 1) + exact_wealth(n + 1, s)) / 2 == now
    assert wealth(n, s) == pytest.approx(float(now), rel=1e-12)


@given(
    st.integers(0, 120).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    st.fractions(0, Fraction(1, 2)),
)
def test_wealth_only_falls_when_the_odds_are_worse(at: tuple[int, int], odds: Fraction) -> None:
    n, s = at
    ahead = odds * exact_wealth(n + 1, s + 1) + (1 - odds) * exact_wealth(n + 1, s)
    assert ahead <= exact_wealth(n, s)


@pytest.mark.parametrize("n", [1, 7, 50, 300])
def test_more_that_exceed_is_more_evidence(n: int) -> None:
    grown = [wealth(n, s) for s in range(n + 1)]
    assert all(low < high for low, high in pairwise(grown))


tries = st.integers(0, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@given(st.lists(tries, max_size=3), tries)
def test_wealth_over_several_tries_is_a_martingale_too(
    before: list[tuple[int, int]], last: tuple[int, int]
) -> None:
    n, s = last
    now = wealth_after([*before, last])
    ahead = (wealth_after([*before, (n + 1, s + k)]) for k in (0, 1))
    assert sum(ahead) / 2 == pytest.approx(now, rel=1e-9)
    assert wealth_after([*before, last, (0, 0)]) == pytest.approx(now, rel=1e-9)
    assert wealth_after([last]) == wealth(n, s)


def test_tries_of_nothing_are_wrong_no_more_often_than_one_is() -> None:
    """Three tries of 40 looks each; whoever counts each for itself is wrong more often."""
    rng, runs, error_rate = np.random.default_rng(11), 2000, 0.05
    together = apart = 0
    for _ in range(runs):
        counts = np.cumsum(rng.random((3, 40)) < 0.5, axis=1).tolist()
        looks = [
            ([(40, counts[k][-1]) for k in range(before)], (n, counts[before][n - 1]))
            for before in range(3)
            for n in range(1, 41)
        ]
        together += any(wealth_after([*old, new]) >= 1 / error_rate for old, new in looks)
        apart += any(wealth(*new) >= 1 / error_rate for _, new in looks)
    assert together / runs <= error_rate
    assert apart > 1.5 * together


def test_a_quiet_try_after_a_busy_one_is_heard() -> None:
    busy, quiet = [-0.3] * 28 + [0.4] * 12, [0.4] * 18
    assert median_interval(quiet, ERROR_RATE, [busy])[0] == 0.4
    assert median_interval([*busy, *quiet], ERROR_RATE)[0] < 0
    assert median_interval([0.4] * 4, ERROR_RATE, [[0.4] * 6])[0] == 0.4


def test_wealth_without_observations_is_one() -> None:
    assert wealth(0, 0) == 1.0


def test_wealth_beyond_any_float_is_infinite_not_an_error() -> None:
    assert wealth(1200, 1200) == math.inf
    assert critical_count(1200, ERROR_RATE) is not None


def test_least_observations() -> None:
    assert least_observations(0.05) == 5
    assert least_observations(ERROR_RATE) == 9
    assert critical_count(8, ERROR_RATE) is None
    assert critical_count(9, ERROR_RATE) == 9


@pytest.mark.parametrize("error_rate", [0.4, 0.05, ERROR_RATE, 1e-6])
def test_critical_count_is_the_least_that_rejects(error_rate: float) -> None:
    for n in range(1, 90):
        count = critical_count(n, error_rate)
        rejecting = [s for s in range(n + 1) if wealth(n, s) >= 1 / error_rate]
        assert count == (rejecting[0] if rejecting else None)
        assert count is None or count > n / 2


def test_critical_count_grows_by_at_most_one_per_observation() -> None:
    counts = [critical_count(n, ERROR_RATE) for n in range(9, 400)]
    known = [count for count in counts if count is not None]
    assert len(known) == len(counts)
    assert all(after - before in (0, 1) for before, after in pairwise(known))
    assert known[-1] < 0.62 * 399  # evidence accumulates: a small majority is enough in the end


def ever_rejected(exceeds: NDArray[np.bool_], error_rate: float) -> NDArray[np.bool_]:
    """Which runs (rows) reject "the median is at most m" at any of their observations."""
    length = exceeds.shape[1]
    criticals = [critical_count(n, error_rate) for n in range(1, length + 1)]
    needed = np.array([length + 1 if count is None else count for count in criticals])
    found: NDArray[np.bool_] = (np.cumsum(exceeds, axis=1) >= needed).any(axis=1)
    return found


@pytest.mark.parametrize("error_rate", [0.1, 0.02, ERROR_RATE])
def test_looking_after_every_observation_keeps_the_error_rate(error_rate: float) -> None:
    runs = 20_000
    exceeds = np.random.default_rng(7).random((runs, 250)) < 0.5
    rate = ever_rejected(exceeds, error_rate).mean()
    three_sigma = 3 * math.sqrt(error_rate / runs)
    assert 0 < rate <= error_rate + three_sigma


def test_a_difference_is_found() -> None:
    exceeds = np.random.default_rng(8).random((2000, 120)) < 0.8
    assert ever_rejected(exceeds, ERROR_RATE).mean() > 0.95


@pytest.mark.parametrize("kind", ["normal", "lognormal", "cauchy", "outliers"])
def test_the_interval_covers_the_median_at_every_look(kind: str) -> None:
    rng, runs, length, error_rate = np.random.default_rng(9), 800, 60, 0.05
    drawn: dict[str, NDArray[np.float64]] = {
        "normal": rng.normal(0, 1, (runs, length)),
        "lognormal": rng.lognormal(0, 2, (runs, length)) - 1,
        "cauchy": rng.standard_cauchy((runs, length)),
        "outliers": rng.normal(0, 1, (runs, length)) ** 3 * 1e6,
    }
    missed = 0
    for row in drawn[kind].tolist():
        intervals = (median_interval(row[:n], error_rate) for n in range(8, length + 1, 4))
        missed += any(not low <= 0 <= high for low, high in intervals)
    both_sides = 2 * error_rate
    assert missed / runs <= both_sides + 3 * math.sqrt(both_sides / runs)


observations = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=80)


@given(observations.flatmap(lambda v: st.tuples(st.just(v), st.permutations(v))))
def test_order_does_not_matter(orders: tuple[list[float], list[float]]) -> None:
    values, shuffled = orders
    assert median_interval(values, ERROR_RATE) == median_interval(shuffled, ERROR_RATE)


@given(st.lists(st.integers(-1000, 1000), min_size=11, max_size=80))
def test_monotone_maps_carry_the_interval_along(values: list[int]) -> None:
    low, high = median_interval(values, ERROR_RATE)
    cubes = median_interval([float(v) ** 3 for v in values], ERROR_RATE)
    assert cubes == (low**3, high**3)
    mirrored = median_interval([-v for v in values], ERROR_RATE)
    assert mirrored == (-high, -low)


@given(observations)
def test_the_interval_is_around_the_median_and_made_of_observations(values: list[float]) -> None:
    middle, (low, high) = median(values), median_interval(values, ERROR_RATE)
    assert middle == median(values)
    assert low <= middle <= high
    if len(values) < 9:
        assert (low, high) == (-math.inf, math.inf)
    else:
        assert {low, high} <= set(values)


@given(st.lists(st.floats(-1, 1), min_size=11, max_size=60))
def test_a_lower_error_rate_is_never_narrower(values: list[float]) -> None:
    low, high = median_interval(values, 0.05)
    wide_low, wide_high = median_interval(values, ERROR_RATE)
    assert wide_low <= low
    assert high <= wide_high


def test_an_incumbents_failure_decides_nothing_and_a_candidates_is_its_own() -> None:
    died = Crashed(reason="signal_sigsegv", detail="killed")
    assert blame(CANDIDATE, died) == died
    found = blame(INCUMBENT, died)
    assert (found.kind, found.reason) == ("unstable", "incumbent_failed")
    assert "killed" in found.detail


def test_what_is_nobodys_fault_keeps_its_name() -> None:
    busy = Unstable(reason="device_busy", detail="somebody else is at work")
    assert blame(INCUMBENT, busy) == blame(CANDIDATE, busy) == busy
