"""What becomes of judgements and campaigns on a GPU that others use, too, or that goes away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from simulated_fleet import SimulatedFleet, busy_gpu, fake_uuid, idle_gpu
from worlds import world

from roofsmith.domain.campaign import Campaign, Resumed, Started
from roofsmith.domain.comparison import Judgement, Screening
from roofsmith.domain.fleet import GatePolicy, GpuStatus
from roofsmith.domain.health import Health
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Crashed, Incorrect, Outcome, Unstable
from roofsmith.domain.workload import Workload
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.errors import NoIdleGpuError
from roofsmith.evaluator.guard import Guard
from roofsmith.machine.gate import GpuGate
from roofsmith.machine.lease import FileLeases
from roofsmith.machine.waiting import GateParts
from roofsmith.ports import Judge, Measured, Observer, Scope, required
from roofsmith.testing.clock import FakeClock
from roofsmith.testing.engine import FakeWorld
from roofsmith.testing.observer import SilentObserver
from roofsmith.testing.profiler import FakeProfiler

TRIES = GatePolicy().tries
STRANGER = Health(uuid=fake_uuid(0), at_s=0.0, processes=(4242,))


@dataclass
class Neighbourhood:
    """One GPU, and what happens on it during the judge's measurements."""

    during: Callable[[int], None] = lambda _: None
    """Called with the number of each measurement, from 1, while it runs."""
    status: GpuStatus | None = field(default_factory=idle_gpu)
    index: int = 0
    waits: bool = False
    count: int = 0

    def __post_init__(self) -> None:
        parts = GateParts(
            fleet=SimulatedFleet([lambda _: self.status], FakeClock()),
            leases=FileLeases(FakeClock(), "roofsmith test"),
            clock=FakeClock(),
            observer=SilentObserver(),
            policy=GatePolicy(),
            own=lambda _: (),
            nobody=lambda _: (),
            waits=self.waits,
        )
        self.gate = GpuGate(parts, fake_uuid(self.index))

    def happens(self) -> None:
        self.count += 1
        self.during(self.count)


@dataclass
class Watched:
    """A judge whose measurements last long enough for something to happen."""

    judge: Judge
    here: Neighbourhood

    def measure(self, candidate: Built, observer: Observer, *, timed: bool = True) -> Measured:
        self.here.happens()
        return self.judge.measure(candidate, observer, timed=timed)

    def screen(self, candidate: Built, incumbent: Built) -> Screening:
        self.here.happens()
        return self.judge.screen(candidate, incumbent)

    def compare(
        self, candidate: Built, incumbent: Built, observer: Observer, scope: Scope | None = None
    ) -> Judgement:
        self.here.happens()
        return self.judge.compare(candidate, incumbent, observer, scope)


def stranger_on(*measurements: int) -> Neighbourhood:
    """Somebody comes and goes during these measurements."""
    here = Neighbourhood()
    here.during = lambda number: here.gate.hear(STRANGER) if number in measurements else None
    return here


def guarded(there: FakeWorld, here: Neighbourhood) -> FakeWorld:
    judge = Watched(there.fake_judge(), here)
    return replace(there, judge=judge, guard=Guard(here.gate))


def compared(here: Neighbourhood, outcome: Outcome | None = None) -> Judgement:
    there = world(0.5e-3)
    candidate = there.ideas[0].candidate
    there.kernels.add(candidate, outcome=outcome)
    evaluator = guarded(there, here).evaluator()
    return required(evaluator.evaluate(candidate, there.target.baseline, Scope()).judgement)


# -- judgements ---------------------------------------------------------------------------------


def test_an_undisturbed_judgement_is_the_judges_own() -> None:
    here = stranger_on()
    judgement = compared(here)
    assert judgement.verdict == "faster"
    assert not judgement.notes
    assert here.count == 1


@pytest.mark.rule("disturbed")
def test_a_disturbed_judgement_is_made_again_and_says_so() -> None:
    here = stranger_on(1)
    judgement = compared(here)
    assert judgement.verdict == "faster"
    assert judgement.notes == ("measured again after a disturbance: pid 4242",)
    assert here.count == 2


def test_one_that_is_always_disturbed_is_unstable_and_has_no_samples() -> None:
    here = stranger_on(*range(1, 100))
    judgement = compared(here)
    assert isinstance(judgement.outcome, Unstable)
    assert judgement.outcome.reason == "interference"
    assert judgement.outcome.detail == ("disturbed in each of 3 tries, the last time by: pid 4242")
    assert judgement.verdict == "rejected"
    assert not judgement.samples
    assert judgement.comparison is None
    assert here.count == TRIES


def test_a_wrong_output_is_wrong_whoever_was_there() -> None:
    here = stranger_on(1)
    judgement = compared(here, Incorrect(reason="wrong_output", detail="x"))
    assert isinstance(judgement.outcome, Incorrect)
    assert here.count == 1


def test_a_crash_beside_others_may_be_for_want_of_memory() -> None:
    here = stranger_on(1)
    crash = Crashed(reason="out_of_device_memory", detail="x")
    assert compared(here, crash).outcome == crash
    assert here.count == 2


@pytest.mark.rule("gate-first")
def test_timing_alone_and_screening_are_watched_as_well() -> None:
    there = world(0.5e-3)
    base, candidate = there.target.baseline, there.ideas[0].candidate
    evaluator = guarded(there, stranger_on(*range(100))).evaluator()
    measured = required(evaluator.evaluate(candidate, None, Scope(alone="time")).measured)
    assert isinstance(measured.outcome, Unstable)
    assert not measured.timings
    screening = evaluator.screen(candidate, base)
    assert isinstance(screening.outcome, Unstable)
    assert screening.speedup is None
    checked = required(evaluator.evaluate(candidate, None, Scope(alone="check")).measured)
    assert checked.outcome.kind == "passed"


def test_a_profile_that_was_taken_beside_others_says_so() -> None:
    here = Neighbourhood()

    class Slow(FakeProfiler):
        def profile(self, built: Built, workload: Workload):  # type: ignore[no-untyped-def]
            here.gate.hear(STRANGER)
            return super().profile(built, workload)

    there = world()
    there = replace(there, profiler=Slow({"instructions": 1e6}), guard=Guard(here.gate))
    scope = Scope(profile=there.target.workloads[0])
    profile = required(there.evaluator().evaluate(there.target.baseline, None, scope).profile)
    assert "others were on the GPU: pid 4242" in profile.notes


# -- campaigns ----------------------------------------------------------------------------------


def run(there: FakeWorld) -> Campaign:
    return Engine(there.parts(), "test").run()


def kinds(campaign: Campaign) -> list[str]:
    return [round_.decision.kind for round_ in campaign.rounds]


def test_interference_in_every_try_is_a_round_without_a_win() -> None:
    there = world(0.5e-3, 0.25e-3)
    # 1 is the baseline; 2, 3 and 4 are the tries of the first idea
    campaign = run(guarded(there, stranger_on(2, 3, 4)))
    assert kinds(campaign) == ["rolled_back", "kept"]
    outcome = campaign.rounds[0].judgement.outcome
    assert isinstance(outcome, Unstable)
    assert outcome.reason == "interference"
    assert not campaign.rounds[0].decision.regression  # type: ignore[union-attr]
    assert not verify(there.records)


@pytest.mark.rule("stop-no-idle-gpu")
def test_a_campaign_stops_where_no_gpu_is_idle_and_goes_on_later() -> None:
    there = world(0.5e-3, 0.25e-3)
    here = Neighbourhood()

    def moves_in(number: int) -> None:
        if number == 2:
            here.status = busy_gpu()

    here.during = moves_in
    campaign = run(guarded(there, here))
    assert campaign.stopped.code == "no_idle_gpu"
    assert "pid 4242 (alice): python3 train.py" in campaign.stopped.detail
    assert "\n" not in campaign.stopped.detail
    assert not campaign.rounds, "the round in flight is lost"
    assert not campaign.stopped.final_timings, "there is nothing to measure on"

    again = run(guarded(there, Neighbourhood()))
    assert kinds(again) == ["kept", "kept"]
    assert again.stopped.code == "out_of_ideas"
    assert again.stopped.final_timings
    assert not verify(there.records)


def test_it_may_go_on_on_another_gpu_of_the_product_and_says_so() -> None:
    there = world(0.5e-3)
    here = Neighbourhood()

    def vanishes(number: int) -> None:
        here.status = None if number == 2 else here.status

    here.during = vanishes
    campaign = run(guarded(there, here))
    assert campaign.stopped.code == "no_idle_gpu"
    assert "is gone" in campaign.stopped.detail
    other = Neighbourhood(status=idle_gpu(3), index=3)
    run(guarded(there, other))
    started = there.records[0]
    (resumed,) = [record for record in there.records if isinstance(record, Resumed)]
    assert isinstance(started, Started)
    assert (started.gpu, resumed.gpu) == (fake_uuid(0), fake_uuid(3))
    assert resumed.note.startswith("same environment; on another ")
    assert f": {fake_uuid(3)}; it began on {fake_uuid(0)}" in resumed.note


def test_the_same_gpu_is_no_news() -> None:
    there = world(0.5e-3)
    here = Neighbourhood()
    here.during = lambda number: setattr(here, "status", None if number == 2 else here.status)
    run(guarded(there, here))
    run(guarded(there, Neighbourhood()))
    (resumed,) = [record for record in there.records if isinstance(record, Resumed)]
    assert resumed.note.startswith("same environment; round 2 was planned")


def test_one_that_stopped_before_its_last_measurement_makes_it_when_it_is_resumed() -> None:
    there = world(1e-5)
    here = Neighbourhood()
    here.during = lambda number: setattr(here, "status", None if number == 3 else here.status)
    campaign = run(guarded(there, here))
    assert kinds(campaign) == ["kept"]
    assert campaign.stopped.code == "no_idle_gpu"
    again = run(guarded(there, Neighbourhood()))
    assert again.stopped.code == "efficiency_reached"
    assert again.stopped.final_timings


def test_without_a_baseline_there_is_nothing_to_go_on_with() -> None:
    there = world(0.5e-3)
    with pytest.raises(NoIdleGpuError, match="alice"):
        run(guarded(there, Neighbourhood(status=busy_gpu())))


def test_a_baseline_that_is_always_disturbed_is_not_the_kernels_fault() -> None:
    with pytest.raises(NoIdleGpuError, match="can't be measured: disturbed in each of 3 tries"):
        run(guarded(world(0.5e-3), stranger_on(1, 2, 3)))
