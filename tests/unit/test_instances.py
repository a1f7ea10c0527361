"""Intervals that hold the differences between processes."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.bounds import exactly
from roofsmith.analysis.compare import estimate
from roofsmith.analysis.instances import LEAST_INSTANCES, t_975, widened
from roofsmith.domain.target import KeepPolicy

POLICY = KeepPolicy(noise_band=0.005)


@given(
    st.lists(st.floats(-0.1, 0.1), min_size=1, max_size=40),
    st.integers(1, 8),
    st.floats(-0.2, 0.0),
    st.floats(0.0, 0.2),
)
def test_an_interval_never_shrinks(
    values: list[float], per_instance: int, low: float, high: float
) -> None:
    instances = [i // per_instance for i in range(len(values))]
    found = widened((low, high), exactly(values), instances)
    assert found[0] <= low
    assert found[1] >= high


def test_few_instances_say_nothing() -> None:
    values = [0.1, -0.1] * 3
    assert widened((0.0, 0.0), exactly(values), [0, 0, 1, 1, 2, 2]) == (0.0, 0.0)
    assert LEAST_INSTANCES == 4


def test_agreeing_instances_widen_nothing() -> None:
    assert widened((0.01, 0.02), exactly([0.015] * 8), [0, 0, 1, 1, 2, 2, 3, 3]) == (0.01, 0.02)


def test_an_instance_that_was_disturbed_does_not_count() -> None:
    values = [*[0.01] * 16, 0.9]
    instances = [*[i // 4 for i in range(16)], 4]
    assert widened((0.0, 0.02), exactly(values), instances) == (0.0, 0.02)


def test_the_half_width_is_students() -> None:
    medians = [0.00, 0.01, 0.02, 0.03]
    spread = math.sqrt(sum((m - 0.015) ** 2 for m in medians) / 3)
    low, high = widened((0.015, 0.015), exactly(medians), [0, 1, 2, 3])
    assert high - median(medians) == pytest.approx(3.182 * spread / 2)
    assert low == pytest.approx(median(medians) - 3.182 * spread / 2)


def test_quantiles_fall_towards_the_normal_one() -> None:
    quantiles = [t_975(n) for n in range(1, 200)]
    assert quantiles == sorted(quantiles, reverse=True)
    assert quantiles[-1] == pytest.approx(1.972, abs=0.005)
    assert t_975(16) == pytest.approx(2.120, rel=0.01)


def test_processes_that_differ_make_no_winner() -> None:
    """Identical kernels whose processes differ by 2%: the pairs alone would call some faster."""
    rng = random.Random(7)
    alone = together = 0
    for _ in range(300):
        values, instances = [], []
        for instance in range(5):
            bias = rng.gauss(0, 0.02)
            values += [bias + rng.gauss(0, 0.002) for _ in range(4)]
            instances += [instance] * 4
        alone += estimate(values, POLICY).verdict == "faster"
        together += estimate(values, POLICY, instances).verdict == "faster"
    assert alone >= 2 * max(together, 1), (alone, together)
    assert together <= 9  # 3%: measured twice, one in a thousand
