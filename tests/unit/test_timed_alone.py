"""How long a kernel is timed alone while others disturb it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofsmith.domain.target import KeepPolicy
from roofsmith.judge.parent import ProcessJudge
from roofsmith.judge.patience import LONGEST_S
from roofsmith.testing.engine import fake_target
from roofsmith.testing.observer import SilentObserver


@pytest.mark.parametrize(
    ("sweeps", "times_s", "spent_s", "over"),
    [
        (4, [1.0] * 4, 0.1, False),
        (5, [1.0, 1.01, 1.02, 1.03, 1.04], 0.1, True),
        (8, [1.0, 1.01, 1.02, 1.03, 1.2], 0.1, False),
        (9, [1.0, 1.01, 1.02, 1.03, 1.2], 0.1, True),
        (9, [], 0.1, False),
        (900, [], 11.9, False),
        (900, [], 12.1, True),
        (3, [1.0] * 3, LONGEST_S + 1, True),
    ],
)
def test_it_goes_on_until_samples_agree_or_there_are_enough_of_every_workload(
    sweeps: int, times_s: list[float], spent_s: float, over: bool
) -> None:
    target = fake_target(keep=KeepPolicy(judge_budget_s=6.0, error_rate=0.005))
    bench = SimpleNamespace(isolation=SimpleNamespace(label="none"))
    judge = ProcessJudge(target, cast(Any, bench), (), ())
    assert judge._rules().alone_until(SilentObserver())(sweeps, [times_s, times_s], spent_s) is over
