"""What the judge makes of its clock and the floor is what verification makes of the same times."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofsmith.domain.campaign import Event, Round
from roofsmith.domain.comparison import Judgement, PairSample, Screening
from roofsmith.domain.inspection import Defect, InspectionFound
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Cheated, Crashed, Outcome, Passed
from roofsmith.domain.workload import ConfigClass
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.judge.parent import Evidence, ProcessJudge
from roofsmith.judge.timing.sampling import Measurement
from roofsmith.ports import Judge, Measured, Observer, Scope
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_target
from roofsmith.testing.inspector import FakeInspector
from roofsmith.testing.judge import FakeKernels

TARGET = fake_target()
IDEA = fake_idea(TARGET, "one idea")
JITTER = (0.0, 0.004, -0.004, 0.002, -0.002, 0.001, -0.001, 0.003, -0.003, 0.0005, -0.0005)
IMPOSSIBLE, POSSIBLE = 20.0, 4.0
"""Speedups over a millisecond, where the floor is a tenth of one."""
NOTHING_SEEN = Measurement(())


def pairs(ratio: float, *, noise: float = 1.0, void: str | None = None) -> Measurement:
    """Eleven pairs on each workload whose incumbent takes a millisecond."""
    return Measurement(
        tuple(
            PairSample(
                workload=workload.label, sweep=sweep, instance=0, first="incumbent", void=void,
                incumbent_time_s=(1e-3,),
                candidate_time_s=(1e-3 * math.exp(noise * jitter) / ratio,), calls=512,
            )
            for sweep, jitter in enumerate(JITTER)
            for workload in TARGET.workloads
        )
    )  # fmt: skip


@dataclass
class OnThisEvidence:
    """The judge's verdict on given times."""

    inner: Judge
    judge: ProcessJudge

    def measure(self, candidate: Built, observer: Observer, *, timed: bool = True) -> Measured:
        return self.inner.measure(candidate, observer, timed=timed)

    def screen(self, candidate: Built, incumbent: Built) -> Screening:
        return self.inner.screen(candidate, incumbent)

    def compare(
        self, candidate: Built, incumbent: Built, observer: Observer, scope: Scope | None = None
    ) -> Judgement:
        return self.judge.compare(candidate, incumbent, observer, scope)


def told(
    monkeypatch: pytest.MonkeyPatch, evidence: Evidence, inspector: FakeInspector | None = None
) -> list[Event]:
    """The ledger of a campaign whose only idea was timed like this."""
    world = FakeWorld(TARGET, FakeKernels(), [IDEA], inspector=inspector)
    parts = world.parts()
    Engine(parts, "test").open()
    engine = Engine(parts, "test")
    bench = cast(Any, SimpleNamespace(isolation=SimpleNamespace(label="none")))
    classes = (
        ConfigClass(name="all", workloads=tuple(w.label for w in TARGET.workloads), reason=""),
    )
    judge = ProcessJudge(TARGET, bench, classes, engine.campaign.started.bounds)
    monkeypatch.setattr(judge, "_require_passing", lambda *_: None)
    monkeypatch.setattr(judge._examiner, "examine", lambda *_: (Passed(), ()))
    monkeypatch.setattr(judge, "_measure", lambda *_: evidence.first)
    monkeypatch.setattr(judge, "_evidence", lambda *_: evidence)
    judged = replace(world, judge=OnThisEvidence(world.fake_judge(), judge))
    Engine(judged.parts(), "test").submit(IDEA)
    return world.records


def timed(claimed: float, clock: Measurement) -> Evidence:
    return Evidence(pairs(claimed), pairs(claimed), clock)


def round_of(events: list[Event]) -> Round:
    return next(event for event in events if isinstance(event, Round))


def reason_of(outcome: Outcome) -> str:
    return outcome.reason if isinstance(outcome, Cheated) else outcome.kind


CASES: dict[str, tuple[Evidence, str, str]] = {
    "impossible, and there": (timed(IMPOSSIBLE, pairs(20.0)), "below_floor", "rejected"),
    "impossible, smaller": (timed(IMPOSSIBLE, pairs(7.0)), "below_floor", "rejected"),
    "impossible, unresolved": (
        timed(IMPOSSIBLE, pairs(3.0, noise=900.0)), "below_floor", "rejected",
    ),
    "impossible, unseen": (
        timed(IMPOSSIBLE, pairs(1.0, void="moved")), "below_floor", "rejected",
    ),
    "impossible, not asked": (timed(IMPOSSIBLE, NOTHING_SEEN), "below_floor", "rejected"),
    "impossible, and not there": (timed(IMPOSSIBLE, pairs(1.0)), "clock_forged", "rejected"),
    "there": (timed(POSSIBLE, pairs(4.0)), "passed", "faster"),
    "smaller": (timed(POSSIBLE, pairs(2.5)), "passed", "faster"),
    "unresolved": (timed(POSSIBLE, pairs(3.0, noise=900.0)), "passed", "unverified"),
    "not there": (timed(POSSIBLE, pairs(1.0)), "clock_forged", "rejected"),
    "died by the clock": (
        timed(POSSIBLE, replace(pairs(1.0), failure=Crashed(reason="exited"))),
        "crashed", "rejected",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_the_judge_says_follows(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    evidence, outcome, verdict = CASES[case]
    events = told(monkeypatch, evidence)
    judgement = round_of(events).judgement
    assert (reason_of(judgement.outcome), judgement.verdict) == (outcome, verdict)
    assert verify(events) == ()


def test_what_sanitizers_reject_had_been_timed_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    defect = Defect(kind="invalid read", kernel=None, source=None, detail="out of bounds")
    found = InspectionFound(tool="memcheck", defects=(defect,))
    inspector = FakeInspector({IDEA.candidate.id: found})
    events = told(monkeypatch, CASES["smaller"][0], inspector)
    judgement = round_of(events).judgement
    assert judgement.outcome.kind == "incorrect"
    assert judgement.comparison.overall.speedup == pytest.approx(2.5, rel=0.01)
    assert verify(events) == ()


@pytest.mark.rule("physics")
@pytest.mark.parametrize(
    ("case", "outcome"),
    [
        ("impossible, and there", Passed()),
        ("not there", Passed()),
        ("there", Cheated(reason="below_floor")),
        ("there", Cheated(reason="clock_forged")),
        ("impossible, and not there", Cheated(reason="below_floor")),
    ],
)
def test_another_outcome_than_the_times_give_is_found(
    monkeypatch: pytest.MonkeyPatch, case: str, outcome: Outcome
) -> None:
    events = told(monkeypatch, CASES[case][0])
    judgement = round_of(events).judgement.model_copy(update={"outcome": outcome})
    edited = [
        e.model_copy(update={"judgement": judgement}) if isinstance(e, Round) else e for e in events
    ]
    assert any("outcome by the judge's clock" in finding.what for finding in verify(edited))


def test_a_gain_that_the_clock_could_not_tell_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    events = told(monkeypatch, CASES["unresolved"][0])
    judgement = round_of(events).judgement.model_copy(update={"verdict": "faster"})
    edited = [
        e.model_copy(update={"judgement": judgement}) if isinstance(e, Round) else e for e in events
    ]
    assert any("a gain by the judge's clock" in finding.what for finding in verify(edited))
