"""How long a kernel is timed alone while others disturb it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofsmith.domain.target import KeepPolicy
from roofsmith.judge.parent import LONGEST_S, ProcessJudge
from roofsmith.testing.engine import fake_target
from roofsmith.testing.observer import SilentObserver


@pytest.mark.parametrize(
    ("sweeps", "seen", "spent_s", "over"),
    [
        (10, True, 0.1, False),
        (11, True, 0.1, True),
        (11, False, 0.1, False),
        (900, False, 11.9, False),
        (900, False, 12.1, True),
        (3, True, LONGEST_S + 1, True),
    ],
)
def test_it_goes_on_until_somebody_left_a_sample_alone(
    sweeps: int, seen: bool, spent_s: float, over: bool
) -> None:
    target = fake_target(keep=KeepPolicy(judge_budget_s=6.0, error_rate=0.005))
    bench = SimpleNamespace(isolation=SimpleNamespace(label="none"))
    judge = ProcessJudge(target, cast(Any, bench), (), ())
    assert judge._enough_alone(SilentObserver())(sweeps, seen, spent_s) is over
