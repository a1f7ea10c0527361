"""How many pairs a measurement gets that decides nothing yet."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofsmith.domain.comparison import PairSample
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.judge.parent import ProcessJudge
from roofsmith.testing.engine import fake_target

BUDGET_S = 3.0
WORKLOAD = Workload(dims={"n": 1})


def is_over(
    at: str,
    ratios: tuple[float, float],
    pairs: int,
    spent_s: float,
    waits: Sequence[tuple[float, float]] = (),
) -> bool:
    """After so many pairs, every other one of either ratio, which no interval can decide."""
    keep = KeepPolicy(judge_budget_s=2 * BUDGET_S, error_rate=0.005, noise_band=0.01)
    target = fake_target(workloads=(WORKLOAD,), keep=keep)
    classes = (ConfigClass(name="all", workloads=(WORKLOAD.label,), reason="the only one"),)
    bench = SimpleNamespace(isolation=SimpleNamespace(label="none"))
    judge = ProcessJudge(target, cast(Any, bench), classes, ())
    samples = [
        PairSample(
            workload=WORKLOAD.label, sweep=n, instance=0, first="incumbent",
            incumbent_time_s=(1e-3 * ratios[n % 2],), candidate_time_s=(1e-3,),
            waited_s=waits[n] if waits else (0.0, 0.0),
        )
        for n in range(pairs)
    ]  # fmt: skip
    policy = keep.first if at == "first" else keep
    return judge._rules().is_over(samples, judge._compared(samples, policy), policy, spent_s)


UNDECIDED, GAINING, LOSING = (0.98, 1.02), (1.004, 1.03), (1 / 1.004, 1 / 1.03)


@pytest.mark.parametrize(
    ("at", "ratios", "pairs", "spent_s", "over"),
    [
        ("first", UNDECIDED, 40, 2.9, False),
        ("first", UNDECIDED, 8, 3.1, False),
        ("first", UNDECIDED, 10, 3.1, True),
        ("second", UNDECIDED, 16, 3.1, False),
        ("second", UNDECIDED, 18, 3.1, True),
        ("first", GAINING, 10, 3.1, False),
        ("first", GAINING, 106, 11.9, False),
        ("first", GAINING, 108, 11.9, True),
        ("first", GAINING, 10, 12.1, True),
        ("second", GAINING, 18, 3.1, False),
        ("second", GAINING, 108, 11.9, True),
        ("second", GAINING, 18, 12.1, True),
        ("second", GAINING, 16, 12.1, False),
        ("second", GAINING, 12, 60.1, True),
        ("first", LOSING, 8, 1.0, False),
        ("first", LOSING, 10, 1.0, True),
        ("second", LOSING, 16, 1.0, False),
        ("second", LOSING, 18, 1.0, True),
    ],
)
def test_who_seems_to_gain_gets_more_and_who_does_not_gets_less(
    at: str, ratios: tuple[float, float], pairs: int, spent_s: float, over: bool
) -> None:
    assert is_over(at, ratios, pairs, spent_s) is over


@pytest.mark.parametrize(("spent_s", "over"), [(1.0, False), (3.1, True)])
def test_a_measurement_that_counts_goes_on_while_an_end_is_open(spent_s: float, over: bool) -> None:
    """A gain of 10x in two threads, one pair of which waited for longer than the call took."""
    waits = [(0.0, 4e-3 if n == 3 else 0.0) for n in range(9)]
    assert is_over("second", (10.0, 10.0), 9, spent_s, waits) is over
    assert is_over("second", (10.0, 10.0), 9, spent_s)
