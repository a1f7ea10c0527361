"""How many pairs a measurement gets that decides nothing yet."""

from __future__ import annotations

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


def is_over(ratios: tuple[float, float], pairs: int, spent_s: float) -> bool:
    """After so many pairs, every other one of either ratio, which no interval can decide."""
    policy = KeepPolicy(judge_budget_s=2 * BUDGET_S, error_rate=0.005, noise_band=0.01)
    target = fake_target(workloads=(WORKLOAD,), keep=policy)
    classes = (ConfigClass(name="all", workloads=(WORKLOAD.label,), reason="the only one"),)
    bench = SimpleNamespace(isolation=SimpleNamespace(label="none"))
    judge = ProcessJudge(target, cast(Any, bench), classes, ())
    samples = [
        PairSample(
            workload=WORKLOAD.label, sweep=n, instance=0, first="incumbent",
            incumbent_time_s=(1e-3 * ratios[n % 2],), candidate_time_s=(1e-3,),
        )
        for n in range(pairs)
    ]  # fmt: skip
    return judge._is_over(samples, judge._compared(samples), spent_s, BUDGET_S)


UNDECIDED, GAINING, LOSING = (0.98, 1.02), (1.004, 1.03), (1 / 1.004, 1 / 1.03)


@pytest.mark.parametrize(
    ("ratios", "pairs", "spent_s", "over"),
    [
        (UNDECIDED, 40, 2.9, False),
        (UNDECIDED, 20, 3.1, False),
        (UNDECIDED, 22, 3.1, True),
        (GAINING, 22, 3.1, False),
        (GAINING, 108, 11.9, False),
        (GAINING, 110, 11.9, True),
        (GAINING, 22, 12.1, True),
        (GAINING, 20, 12.1, False),
        (GAINING, 12, 60.1, True),
        (LOSING, 108, 11.9, False),
    ],
)
def test_who_seems_to_differ_gets_more(
    ratios: tuple[float, float], pairs: int, spent_s: float, over: bool
) -> None:
    assert is_over(ratios, pairs, spent_s) is over
