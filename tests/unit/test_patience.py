"""How many pairs a measurement gets that decides nothing yet."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofsmith.domain.comparison import PairSample
from roofsmith.domain.outcome import Passed
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.judge.parent import CUT, ProcessJudge
from roofsmith.judge.timing.sampling import Measurement, Progress
from roofsmith.ports import Scope
from roofsmith.testing.engine import fake_target
from roofsmith.testing.observer import RecordingObserver

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


class Pairs:
    """A sampler whose every pair takes a second, by a clock of its own."""

    def __init__(self, *ratios: tuple[float, float]) -> None:
        self.now_s = 0.0
        self._ratios = list(ratios)
        """Of the measurements to come."""

    def is_one_long_call(self, incumbent: object, candidate: object) -> bool:
        return False

    def within(self, target: object, examiner: object) -> Pairs:
        return self

    def pairs(
        self, incumbent: object, candidate: object, is_over: Progress, *, instance: int,
        by_clock: bool = False,
    ) -> Measurement:  # fmt: skip
        ratios, samples, begin = self._ratios.pop(0), list[PairSample](), self.now_s
        while not samples or not is_over(samples, self.now_s - begin):
            ratio = ratios[len(samples) % 2]
            samples.append(
                PairSample(
                    workload=WORKLOAD.label, sweep=len(samples), instance=instance,
                    first="incumbent", incumbent_time_s=(1e-3 * ratio,), candidate_time_s=(1e-3,),
                )
            )  # fmt: skip
            self.now_s += 1.0
        return Measurement(tuple(samples))


NOISY = (0.8, 1.6)


@pytest.mark.parametrize(
    ("measured", "left_s", "pairs", "verdict"),
    [
        ([GAINING], None, 11, "inconclusive"),
        ([GAINING], 4.0, 4, "inconclusive"),
        ([(1.5, 1.5), (1.5, 1.5), (1.5, 1.5)], 60.0, 19, "faster"),
        ([(1.5, 1.5), GAINING], 8.0, 8, "inconclusive"),
        ([(1.5, 1.5), GAINING], 5.0, 6, "inconclusive"),
        ([(1.5, 1.5), (1.5, 1.5), NOISY], 20.0, 20, "unverified"),
    ],
)
def test_no_measurement_outlasts_what_a_campaign_has_left_but_for_a_first_look(
    measured: list[tuple[float, float]], left_s: float | None, pairs: int, verdict: str
) -> None:
    """What is cut is told apart from what was decided, and never counts as a win."""
    keep = KeepPolicy(judge_budget_s=2 * BUDGET_S, error_rate=0.005, noise_band=0.01)
    classes = (ConfigClass(name="all", workloads=(WORKLOAD.label,), reason="the only one"),)
    sampler, passed = Pairs(*measured), (Passed(), ())
    examiner = SimpleNamespace(
        knows=lambda built: True, examine=lambda *given: passed, look_further=lambda *given: None
    )
    bench = SimpleNamespace(isolation=SimpleNamespace(label="none"))
    target = fake_target(workloads=(WORKLOAD,), keep=keep)
    judge = ProcessJudge(target, cast(Any, bench), classes, (), lambda: sampler.now_s)
    judge._examiner, judge._sampler = cast(Any, examiner), cast(Any, sampler)
    kernel = cast(Any, None)
    found = judge.compare(kernel, kernel, RecordingObserver(), Scope(classes, left_s=left_s))
    assert found.verdict == verdict
    assert sampler.now_s == pairs
    is_cut = left_s is not None and verdict != "faster"
    assert (CUT in found.notes) is is_cut
