"""Which reason a gain gets that the clock or the floor refutes, and what is measured only once."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofsmith.domain.bound import Bound, Cost
from roofsmith.domain.comparison import Judgement, PairSample
from roofsmith.domain.facts import Citation, Fact
from roofsmith.domain.kernel import BuildSpec, SourceFile
from roofsmith.domain.outcome import Cheated, Passed
from roofsmith.domain.target import Target
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.judge.parent import Evidence, ProcessJudge
from roofsmith.judge.timing.sampling import Measurement
from roofsmith.testing.observer import SilentObserver

WORKLOAD = Workload(dims={"N": 1})
TARGET = Target(
    name="sample", language="c", kernel=SourceFile(path="kernel.c", text=""),
    reference=SourceFile(path="reference.py", text=""), workloads=(WORKLOAD,), build=BuildSpec(),
)  # fmt: skip
JITTER = (0.0, 0.004, -0.004, 0.002, -0.002, 0.001, -0.001, 0.003, -0.003, 0.0005, -0.0005)


def pairs(ratio: float) -> Measurement:
    """Eleven pairs whose incumbent takes a second."""
    return Measurement(
        tuple(
            PairSample(
                workload=WORKLOAD.label, sweep=sweep, instance=0, first="incumbent",
                incumbent_time_s=(1.0,), candidate_time_s=(math.exp(jitter) / ratio,),
            )
            for sweep, jitter in enumerate(JITTER)
        )
    )  # fmt: skip


def bound(floor_s: float) -> Bound:
    """A roofline that allows no less than `floor_s`."""
    cited = Citation(path="a test")
    return Bound(
        workload=WORKLOAD.label,
        cost=Cost(flops=1e9, read_bytes=1e9, written_bytes=1e9, dtype="float32", source="test"),
        intensity=0.5, ridge=1.0, limiter="memory", floor_time_s=floor_s,
        bandwidth=Fact(metric="bandwidth", value=1e9, unit="byte/s", citation=cited),
        peak=Fact(metric="peak", value=1e9, unit="FLOP/s", citation=cited),
    )  # fmt: skip


def judged(monkeypatch: pytest.MonkeyPatch, *, by_clock: float, floor_s: float) -> Judgement:
    """What becomes of a kernel that is said to be four times as fast."""
    judge = ProcessJudge(
        TARGET, cast(Any, SimpleNamespace(isolation=SimpleNamespace(label="none"))),
        (ConfigClass(name="all", workloads=(WORKLOAD.label,), reason="a test"),),
        (bound(floor_s),),
    )  # fmt: skip
    monkeypatch.setattr(judge, "_require_passing", lambda *_: None)
    monkeypatch.setattr(judge._examiner, "examine", lambda *_: (Passed(), ()))
    evidence = Evidence(pairs(4.0), pairs(4.0), pairs(by_clock))
    monkeypatch.setattr(judge, "_measure", lambda *_: evidence.first)
    monkeypatch.setattr(judge, "_evidence", lambda *_: evidence)
    return judge.compare(cast(Any, None), cast(Any, None), SilentObserver())


def test_a_forged_clock_is_named_however_far_below_the_floor_it_claims(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = judged(monkeypatch, by_clock=1.0, floor_s=0.9)
    assert isinstance(found.outcome, Cheated)
    assert (found.outcome.reason, found.verdict) == ("clock_forged", "rejected")
    assert found.outcome.detail in found.notes


def test_a_gain_that_is_there_and_impossible_is_below_the_floor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = judged(monkeypatch, by_clock=4.0, floor_s=0.9)
    assert isinstance(found.outcome, Cheated)
    assert (found.outcome.reason, found.verdict) == ("below_floor", "rejected")
    assert any("by the judge's own" in note for note in found.notes)


def test_a_gain_that_is_there_and_possible_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, by_clock=4.0, floor_s=0.1)
    assert (found.outcome, found.verdict) == (Passed(), "faster")


def test_what_nobody_keeps_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A yardstick four times as fast: its pairs, and neither fresh ones nor a second clock's."""
    judge = ProcessJudge(
        TARGET, cast(Any, SimpleNamespace(isolation=SimpleNamespace(label="none"))),
        (ConfigClass(name="all", workloads=(WORKLOAD.label,), reason="a test"),), (),
        confirms=False,
    )  # fmt: skip
    monkeypatch.setattr(judge, "_require_passing", lambda *_: None)
    monkeypatch.setattr(judge._examiner, "examine", lambda *_: (Passed(), ()))
    monkeypatch.setattr(judge._sampler, "pairs", lambda *_, **__: pairs(4.0))
    found = judge.compare(cast(Any, None), cast(Any, None), SilentObserver())
    assert (found.verdict, len(found.samples)) == ("faster", len(JITTER))
    assert not found.confirmation
    assert not found.clock
