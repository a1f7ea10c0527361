"""The campaign loop, on a machine in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest
from worlds import world

from roofsmith.analysis.spending import spent_s
from roofsmith.domain.artifact import Artifact
from roofsmith.domain.campaign import Baseline, Campaign, Profiled, Round, Started, Stopped
from roofsmith.domain.command import CommandSpec
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.ending import Wishes
from roofsmith.domain.kernel import BuildSpec, Built, Candidate, Signature, SourceFile
from roofsmith.domain.outcome import BuildFailed, Crashed, Incorrect, Unstable
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.standing import limits_in_force
from roofsmith.domain.target import KeepPolicy, StopPolicy, Target
from roofsmith.engine.loop import Engine
from roofsmith.engine.meter import Lap, Meter
from roofsmith.engine.progress import (
    OUTSIDE_S,
    expected_end_s,
    expected_judgement_s,
    expected_round_s,
    overhead_fraction,
)
from roofsmith.engine.records import baseline_error
from roofsmith.engine.stopping import (
    Stop,
    left_for_pairs_s,
    left_out,
    stop_condition,
    time_is_left,
)
from roofsmith.engine.verify import verify
from roofsmith.errors import BaselineError, MachineError, StorageError
from roofsmith.evaluator.local import LocalEvaluator, changed_signature
from roofsmith.ports import Brief, Judge, Observer, Scope, Screen
from roofsmith.testing.clock import FakeClock
from roofsmith.testing.engine import FakeWorld, ProposerScript, fake_idea, fake_target
from roofsmith.testing.judge import FakeJudge, FakeKernels
from roofsmith.testing.machine import fake_device, fake_environment
from roofsmith.testing.toolchain import FakeToolchain
from roofsmith.toolchains.signature import read_signature

LABELS = ["n=500000,variant=1", "n=500000,variant=2"]


def run(world: FakeWorld, limits: StopPolicy | None = None) -> Campaign:
    return Engine(world.parts(), "test", limits).run()


def stopped(campaign: Campaign) -> Stopped:
    assert campaign.stopped is not None
    return campaign.stopped


def kinds(campaign: Campaign) -> list[str]:
    return [round_.decision.kind for round_ in campaign.rounds]


# -- rounds ---------------------------------------------------------------------------------


@pytest.mark.rule("frozen-target", "roofline-first")
def test_the_first_records_are_what_is_frozen_and_the_baseline() -> None:
    here = world()
    run(here)
    started, baseline = here.records[:2]
    assert isinstance(started, Started)
    assert started.target == here.target
    assert started.proposers == ("scripted",)
    assert [bound.workload for bound in started.bounds] == LABELS
    assert isinstance(baseline, Baseline)
    assert baseline.candidate == here.target.baseline
    assert len(baseline.timings) == 2


def test_the_reference_begins_with_the_campaign() -> None:
    here, heard = world(), list[list[str]]()
    parts = here.parts()
    evaluator = parts.evaluator
    assert isinstance(evaluator, LocalEvaluator)
    tells = replace(evaluator, prepare=lambda _: heard.append(list(here.observer.stages)))
    Engine(replace(parts, evaluator=tells), "test").run()
    assert "build" not in heard[0]


@pytest.mark.rule("kept-or-rolled-back")
def test_a_faster_kernel_is_kept_and_a_slower_one_rolled_back() -> None:
    here = world(0.5e-3, 0.8e-3, 0.25e-3)
    campaign = run(here)
    assert kinds(campaign) == ["kept", "rolled_back", "kept"]
    assert [r.round for r in campaign.rounds] == [2, 3, 4]
    assert campaign.incumbent == here.ideas[2].candidate


@pytest.mark.rule("from-the-incumbent")
def test_every_round_is_compared_with_the_kernel_that_held_before_it() -> None:
    here = world(0.5e-3, 0.8e-3, 0.25e-3)
    campaign = run(here)
    first, second = here.target.baseline.id, here.ideas[0].candidate.id
    assert [r.incumbent_id for r in campaign.rounds] == [first, second, second]


def test_the_total_is_the_product_of_kept_ratios() -> None:
    campaign = run(world(0.5e-3, 0.8e-3, 0.25e-3))
    ratios = [r.judgement.comparison.overall.speedup for r in campaign.kept]  # type: ignore[union-attr]
    assert campaign.total_speedup == pytest.approx(ratios[0] * ratios[1])
    assert campaign.rounds[1].total_speedup == pytest.approx(ratios[0])


def test_the_roofline_fraction_is_that_of_the_kernel_that_holds() -> None:
    campaign = run(world(0.5e-3, 0.8e-3))
    first, second = campaign.rounds
    assert first.roofline_fraction == pytest.approx(0.2, rel=0.02)
    assert second.roofline_fraction == first.roofline_fraction


def test_a_failure_is_recorded_and_rolled_back() -> None:
    here = world(0.5e-3, 0.4e-3, 0.3e-3)
    for idea, failure in zip(
        here.ideas,
        (
            BuildFailed(reason="compile_error", detail="kernel.c:3: expected ';'"),
            Incorrect(reason="outside_budget"),
            Crashed(reason="signal", detail="SIGSEGV"),
        ),
        strict=True,
    ):
        here.kernels.add(idea.candidate, outcome=failure)
    campaign = run(here)
    assert kinds(campaign) == ["rolled_back"] * 3
    outcomes = [r.judgement.outcome.kind for r in campaign.rounds]
    assert outcomes == ["build_failed", "incorrect", "crashed"]
    assert [r.judgement.verdict for r in campaign.rounds] == ["rejected"] * 3
    assert [r.profile for r in campaign.rounds] == [None] * 3


def test_the_toolchain_is_asked_for_the_incumbent_in_every_round() -> None:
    """It may have made room meanwhile: checkouts of repositories are few."""
    asked: list[str] = []

    class Counting(FakeToolchain):
        def build(self, candidate: Candidate) -> Built | BuildFailed:
            asked.append(candidate.id)
            return super().build(candidate)

    target = fake_target(stop=StopPolicy(max_consecutive_regressions=9))
    here = world(*[2e-3] * 6, target=target)
    Engine(replace(here, toolchain=Counting()).parts(), "test").run()
    ideas = [idea.candidate.id for idea in here.ideas]
    places = [asked.index(idea) for idea in ideas] + [len(asked)]
    assert all(target.baseline.id in asked[a:b] for a, b in pairwise(places))


@pytest.mark.rule("commit-per-keep")
def test_kept_rounds_are_commits_and_others_are_not() -> None:
    here = world(0.5e-3, 0.8e-3, 0.25e-3)
    run(here)
    kept = [here.target.baseline, here.ideas[0].candidate, here.ideas[2].candidate]
    assert [commit.candidate for commit in here.lineage.commits] == kept
    assert "idea 2" in here.lineage.commits[-1].message
    assert here.lineage.worktree == {"kernel.c": kept[-1].kernel.text}


@pytest.mark.rule("kept-or-rolled-back")
def test_a_rollback_leaves_nothing_in_the_worktree() -> None:
    """Agents edit there."""

    class Edits(ProposerScript):
        def ask(self, brief: Brief, screen: Screen) -> Proposal | None:
            proposal = super().ask(brief, screen)
            if proposal is not None:
                here.lineage.worktree["kernel.c"] = proposal.candidate.kernel.text
            return proposal

    here = world(2e-3)
    Engine(replace(here, proposer=Edits(here.ideas)).parts(), "test").run()
    assert here.lineage.worktree == {"kernel.c": here.target.baseline.kernel.text}


@pytest.mark.rule("commit-message")
def test_a_commit_says_what_was_tried_why_and_what_was_measured() -> None:
    here = world(0.5e-3)
    (round_,) = run(here).rounds
    parts = here.lineage.commits[-1].message.split("\n\n")
    hypothesis = round_.hypothesis
    assert parts[:2] == [f"Round 2: {hypothesis.statement}", hypothesis.rationale]
    assert parts[2] == f"Why it worked: {round_.decision.rule}"
    assert parts[3] == f"Total: {round_.total_speedup:.3f}x over the baseline"


@pytest.mark.rule("one-entry")
def test_a_candidate_keeps_the_signature() -> None:
    here = world(0.5e-3)
    other = here.ideas[0].candidate

    class Fewer(FakeToolchain):
        def signature(self, candidate: Candidate) -> Signature:
            found = super().signature(candidate)
            fewer = found.model_copy(update={"parameters": found.parameters[:-1]})
            return fewer if candidate == other else found

    campaign = Engine(replace(here, toolchain=Fewer()).parts(), "test").run()
    (round_,) = campaign.rounds
    assert isinstance(round_.judgement.outcome, BuildFailed)
    assert round_.judgement.outcome.reason == "signature_changed"
    assert round_.decision.kind == "rolled_back"


def test_const_may_come_and_go() -> None:
    def takes(first: str, second: str = "float*") -> Signature:
        text = f"void solve({first} x, {second} y, int n) {{}}"
        return read_signature(
            Candidate(language="c", sources=(SourceFile(path="k.c", text=text),), build=BuildSpec())
        )

    assert changed_signature(takes("const float*"), takes("float*")) is None
    assert changed_signature(takes("float*"), takes("const float*")) is None
    for other in (takes("double*"), takes("int"), takes("float*", "int*")):
        refused = changed_signature(other, takes("float*"))
        assert refused.reason == "signature_changed"
        assert "(array float32 x, array float32 y, number int32 n)" in refused.detail


@pytest.mark.rule("commit-after-second")
def test_a_decision_is_on_disk_before_its_commit() -> None:
    here = world(0.5e-3)
    run(here)
    names = here.effects.names
    kept = names.index("after appending round")
    assert names[kept + 1] == "after commit"


def test_a_proposal_that_changes_nothing_is_refused() -> None:
    here = world()
    engine = Engine(here.parts(), "test")
    engine.open()
    same = fake_idea(here.target, "nothing").model_copy(update={"candidate": here.target.baseline})
    refused = engine.submit(same)
    assert isinstance(refused, Refusal)
    assert refused.reason == "no_change"
    assert here.records[-1] == refused
    assert engine.campaign.rounds == ()


def test_the_brief_describes_the_incumbent() -> None:
    here = world(0.5e-3)
    engine = Engine(here.parts(), "test")
    engine.open()
    engine.submit(here.ideas[0])
    engine.diagnose()
    brief = engine.brief()
    assert brief.incumbent == here.ideas[0].candidate
    assert brief.profile == engine.campaign.rounds[0].profile is not None
    assert brief.threads == 2
    assert set(brief.descriptions) == set(LABELS)


class Reads(ProposerScript):
    """A proposer that reads what profiler and listing show, and keeps the briefs."""

    def __init__(self, ideas: Sequence[object]) -> None:
        super().__init__(ideas)
        self.read: list[Brief] = []

    def ask(self, brief: Brief, screen: Screen) -> Proposal | None:
        self.read.append(screen.with_evidence(brief))
        return super().ask(brief, screen)


def test_a_profile_that_decides_nothing_is_made_when_somebody_wants_it() -> None:
    here = world(0.5e-3, 0.8e-3, 0.7e-3)
    campaign = run(here)
    assert [r.profile is not None for r in campaign.rounds] == [True, False, False]
    assert [r.disassembly is not None for r in campaign.rounds] == [True, False, False]
    assert verify(here.records) == ()


def test_whoever_reads_evidence_has_that_of_the_last_round_and_of_what_holds() -> None:
    here = world(0.5e-3, 0.8e-3, 0.7e-3)
    proposer = Reads(here.ideas)
    engine = Engine(replace(here, proposer=proposer).parts(), "test")
    engine.run()
    first, *later = [brief.campaign.rounds for brief in proposer.read]
    assert first == ()
    assert [(r.round, bool(r.profile and r.disassembly)) for r in later[-1]] == [
        (2, True), (3, True), (4, True)
    ]  # fmt: skip
    made = [event for event in here.records if isinstance(event, Profiled)]
    for _ in range(2):
        engine.look_back()
    assert [event for event in here.records if isinstance(event, Profiled)] == made
    assert verify(here.records) == ()


def test_a_round_has_the_hashes_of_what_it_left_and_a_later_look_keeps_no_logs() -> None:
    here = world(0.5e-3, 0.8e-3, 0.7e-3)
    asked: list[tuple[int, bool, bool]] = []

    def keep(round_: int, _: str, kept: bool, logs: bool) -> tuple[Artifact, ...]:
        asked.append((round_, kept, logs))
        return (Artifact(path=f"profiles/round-{round_}/a", sha256="0" * 64, size_bytes=1),)

    parts = replace(here, proposer=Reads(here.ideas)).parts()
    Engine(replace(parts, evidence=keep), "test").run()
    seen = [event for event in here.records if isinstance(event, Baseline | Round | Profiled)]
    assert all(event.artifacts[0].path.split("-")[1][:1] == str(event.round) for event in seen)
    assert asked[:3] == [(1, True, True), (2, True, True), (2, True, False)]
    assert {(3, False, True), (3, False, False)} <= {*asked}
    assert verify(here.records) == ()


def test_evidence_that_cannot_be_kept_loses_no_round() -> None:
    def keep(*_: object) -> tuple[Artifact, ...]:
        raise StorageError("the disk is full")

    here = world(0.5e-3)
    campaign = Engine(replace(here.parts(), evidence=keep), "test").run()
    assert [r.decision.kind for r in campaign.rounds] == ["kept"]
    assert campaign.rounds[0].artifacts == ()


def two_classes() -> Target:
    """A config class per workload."""
    workloads = tuple(
        w.model_copy(update={"config_class": name})
        for w, name in zip(fake_target().workloads, ("wide", "narrow"), strict=True)
    )
    return fake_target(workloads=workloads, keep=KeepPolicy(noise_band=0.02))


def class_world(narrow_s: float, wide_s: float, aim: str) -> FakeWorld:
    """One idea for one class of two."""
    target = two_classes()
    idea = fake_idea(target, "idea")
    hypothesis = idea.hypothesis.model_copy(update={"target_class": aim})
    idea = idea.model_copy(update={"hypothesis": hypothesis})
    kernels = FakeKernels()
    kernels.add(idea.candidate, on={LABELS[0]: wide_s, LABELS[1]: narrow_s})
    return FakeWorld(target=target, kernels=kernels, ideas=[idea])


@pytest.mark.rule("one-class-alone")
def test_a_gain_on_its_class_alone_is_kept_though_the_whole_is_a_tie() -> None:
    here = class_world(narrow_s=0.968e-3, wide_s=1.0e-3, aim="narrow")
    round_ = run(here).rounds[0]
    assert round_.judgement.verdict == "tie"
    assert round_.decision.kind == "kept"
    assert round_.judgement.confirmation
    assert verify(here.records) == ()


# -- stop conditions ------------------------------------------------------------------------


def test_a_baseline_at_the_goal_needs_no_round() -> None:
    campaign = run(world(0.5e-3, floor_time_s=9.5e-4))
    assert stopped(campaign).code == "efficiency_reached"
    assert campaign.rounds == ()


@pytest.mark.rule("efficiency-goal")
def test_an_unknown_roofline_is_not_a_goal_reached() -> None:
    campaign = run(world(0.5e-3, floor_time_s=None))
    assert stopped(campaign).code == "out_of_ideas"
    assert campaign.rounds[0].roofline_fraction is None


@pytest.mark.rule("regression")
@pytest.mark.parametrize("breaker", ["tie", "kept", "broken"])
def test_anything_but_a_regression_resets_the_count(breaker: str) -> None:
    target = fake_target(stop=StopPolicy(max_consecutive_regressions=2))
    middle = {"tie": 1.0e-3, "kept": 0.9e-3, "broken": 0.5e-3}[breaker]
    here = world(1.5e-3, middle, 1.6e-3, 1.7e-3, 0.2e-3, target=target)
    if breaker == "broken":
        here.kernels.add(here.ideas[1].candidate, outcome=Incorrect(reason="outside_budget"))
    campaign = run(here)
    assert stopped(campaign).code == "regressions"
    assert len(campaign.rounds) == 4


@pytest.mark.rule("stop-conditions")
def test_stops_when_the_next_round_and_the_end_would_not_fit_the_budget() -> None:
    target = fake_target(stop=StopPolicy(budget_s=15.0))
    here = world(*(1e-3 * 0.9**n for n in range(1, 9)), target=target)
    here.clock.step_s = 0.2
    campaign = run(here)
    assert stopped(campaign).code == "budget"
    assert 1 <= len(campaign.rounds) < 8
    assert spent_s(here.records) <= 15.0


@pytest.mark.parametrize(
    ("measured_s", "walls_s", "expected_s"),
    [
        (2.0, [60.0], 6.0),
        (2.0, [60.0, 50.0], 50.0),
        (2.0, [60.0, 60.0, 60.0, 4.0, 5.0, 6.0, 7.0, 8.0], 6.0),
        (2.0, [4.0, 4.0, 4.0, 50.0, 60.0, 70.0, 80.0], 60.0),
        (2.0, [], 2.0),
        (2.0, [60.0, 4.0, 5.0], 5.0),
    ],
)
def test_the_next_round_will_take_what_the_last_ones_or_the_baseline_took(
    measured_s: float, walls_s: list[float], expected_s: float
) -> None:
    campaign = run(world(0.5e-3))
    [round_] = campaign.rounds
    baseline = campaign.baseline.model_copy(update={"measured_s": measured_s})
    judged = round_.judgement.model_copy(update={"wall_s": 6.0})
    made = [round_.model_copy(update={"wall_s": wall_s, "judgement": judged}) for wall_s in walls_s]
    update = {"baseline": baseline, "rounds": tuple(made)}
    assert expected_round_s(campaign.model_copy(update=update)) == pytest.approx(expected_s)


def test_an_end_takes_what_measuring_took_and_can_do_without_the_rest() -> None:
    campaign = run(world(0.5e-3))
    [round_] = campaign.rounds
    judged = round_.judgement.model_copy(update={"wall_s": 6.0})
    baseline = campaign.baseline.model_copy(update={"measured_s": 4.0, "held_out": "a seal"})
    one = campaign.model_copy(
        update={
            "baseline": baseline,
            "rounds": (round_.model_copy(update={"judgement": judged, "profile": None}),),
        }
    )
    none = one.model_copy(update={"rounds": ()})
    assert expected_end_s(none, more=0) == OUTSIDE_S, "it was measured as the baseline"
    assert expected_end_s(none) == expected_end_s(one, more=0) == OUTSIDE_S + 4.0
    assert expected_end_s(one) == OUTSIDE_S + 6.0, "two changes are held against the baseline"
    timings = tuple(t.model_copy(update={"launch_time_s": 1e-6}) for t in baseline.timings)
    asides = baseline.model_copy(update={"timings": timings})
    assert expected_end_s(one.model_copy(update={"baseline": asides})) == OUTSIDE_S + 4.0 + 6.0
    assert left_out(one, StopPolicy(budget_s=100.0), 40.0, yardsticks=2) == ()
    spent = 100.0 - OUTSIDE_S - 4.0
    policy = StopPolicy(budget_s=100.0)
    assert left_out(one, policy, spent - 35.0, yardsticks=2) == ("PyTorch's own kernels",)
    assert left_out(one, policy, spent - 7.0, yardsticks=0) == ("the last profile",)
    assert left_out(one, policy, spent - 5.0, yardsticks=0) == ("held-out shapes",)
    assert left_out(one, policy, spent - 3.0, yardsticks=0) == (
        "held-out shapes", "the last profile"
    )  # fmt: skip
    assert left_out(one, StopPolicy(), 1e6, yardsticks=2) == ()


class Hearing:
    """A judge that keeps what it hears of the time that is left."""

    def __init__(self, judge: FakeJudge) -> None:
        self._judge = judge
        self.left_s: list[float | None] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judge, name)

    def compare(
        self, candidate: Built, incumbent: Built, observer: Observer, scope: Scope | None = None
    ) -> Judgement:
        self.left_s.append(None if scope is None else scope.left_s)
        return self._judge.compare(candidate, incumbent, observer, scope)


@pytest.mark.parametrize("budget_s", [None, 100.0])
def test_a_judge_hears_what_the_budget_leaves_beside_the_end(budget_s: float | None) -> None:
    policy = StopPolicy(budget_s=budget_s)
    here = world(0.5e-3, target=fake_target(stop=policy))
    here.judge = cast(Judge, hearing := Hearing(here.fake_judge()))
    campaign = run(here)
    assert all((left_s is None) is (budget_s is None) for left_s in hearing.left_s)
    assert hearing.left_s
    left_s, end_s = left_for_pairs_s(campaign, policy, 20.0), expected_end_s(campaign) or 0.0
    assert left_s == (None if budget_s is None else budget_s - 20.0 - end_s)
    if budget_s is not None:  # a round that was let in has what one takes
        assert left_for_pairs_s(campaign, policy, budget_s) == expected_judgement_s(campaign)


def test_a_slow_reference_makes_rounds_long_and_is_named() -> None:
    campaign = run(world(0.5e-3)).model_copy(update={"rounds": ()})
    started = campaign.started.model_copy(update={"reference_s": 0.5})
    slow = campaign.model_copy(update={"started": started})
    policy = StopPolicy(budget_s=60.0)
    stop = stop_condition(slow, policy, 59.0)
    assert stop is not None
    assert "the reference, 0.5 s" in stop.detail
    assert campaign.baseline is not None
    older = campaign.baseline.model_copy(update={"measured_s": None})
    of_older = campaign.model_copy(update={"baseline": older})
    assert expected_end_s(of_older) is None
    assert time_is_left(of_older, policy, 60.0 - expected_round_s(of_older) - 0.1)


def test_screening_is_refused_when_the_budget_is_spent() -> None:
    here = world(0.5e-3, target=fake_target(stop=StopPolicy(budget_s=50.0)))
    engine = Engine(here.parts(), "test")
    engine.open()
    screen = engine.screen()
    assert screen(here.ideas[0].candidate).speedup == pytest.approx(2.0)
    here.clock.advance(60.0)
    assert screen(here.ideas[0].candidate).outcome.kind == "unstable"


def test_time_is_accounted_for_without_gaps() -> None:
    here = world(0.5e-3, 0.8e-3)
    began = here.clock.monotonic()
    run(here)
    elapsed = here.clock.monotonic() - began
    assert spent_s(here.records) == pytest.approx(elapsed, abs=0.5)
    overhead = overhead_fraction(here.records)
    assert overhead is not None
    assert 0 < overhead < 1


# -- baseline -------------------------------------------------------------------------------


@pytest.mark.rule("baseline-unmodified")
@pytest.mark.parametrize(
    "failure",
    [
        BuildFailed(reason="compile_error", detail="kernel.c:3: expected ';'"),
        Incorrect(reason="outside_budget", detail="y[3] is nan"),
    ],
)
def test_a_baseline_that_fails_says_how(failure: BuildFailed | Incorrect) -> None:
    here = world(0.5e-3)
    here.kernels.add(here.target.baseline, outcome=failure)
    with pytest.raises(BaselineError, match=failure.detail.replace("[", r"\[")) as caught:
        run(here)
    assert "agree with the reference" in (caught.value.hint or "")
    assert [event.kind for event in here.records] == ["started"]


def test_a_repository_is_not_told_to_agree_with_a_reference() -> None:
    spec = CommandSpec(repo="/r", editable=("a.c",), benchmark="b", metric="us", rows=("n",))
    target = fake_target().model_copy(update={"command": spec})
    failure = Incorrect(reason="gate_failed", detail="1 of 4 rows fail")
    error = baseline_error(failure, target)
    assert error.hint == "make its own build, test and gate pass (`roofsmith kernel check TARGET`)"


def test_a_disturbed_baseline_is_not_said_to_be_wrong() -> None:
    here = world(0.5e-3)
    here.kernels.add(here.target.baseline, outcome=Unstable(reason="disturbed", detail="busy"))
    with pytest.raises(BaselineError) as caught:
        run(here)
    assert caught.value.hint is not None
    assert "when nothing else runs here" in caught.value.hint


def test_a_baseline_that_was_repaired_by_the_machine_goes_on() -> None:
    here = world(0.5e-3)
    here.kernels.add(here.target.baseline, outcome=Crashed(reason="memory"))
    with pytest.raises(BaselineError):
        run(here)
    here.kernels.outcomes.clear()
    assert kinds(run(here)) == ["kept"]


# -- interrupts and resuming ----------------------------------------------------------------


def test_resuming_after_ctrl_c_goes_on() -> None:
    here = world(0.5e-3, 0.4e-3, interrupt_at=1)
    with pytest.raises(KeyboardInterrupt):
        run(here)
    here.interrupt_at = None
    campaign = run(here)
    assert kinds(campaign) == ["kept", "kept"]
    assert stopped(campaign).code == "out_of_ideas"


def test_who_asks_for_its_end_gets_a_measured_one_after_the_round_and_may_go_on() -> None:
    here = world(0.5e-3, 0.4e-3)
    here.files.wishes = [Wishes(), Wishes(stop=True)]
    first = run(here)
    assert kinds(first) == ["kept"]
    assert stopped(first).code == "interrupted"
    assert stopped(first).final_timings
    assert kinds(run(here)) == ["kept", "kept"]
    assert verify(here.records) == ()


def test_other_limits_hold_from_the_next_round_on_and_are_recorded() -> None:
    here = world(0.5e-3, 0.4e-3, 0.3e-3, target=fake_target(stop=StopPolicy(max_iterations=1)))
    here.files.wishes = [Wishes(), Wishes(limits=StopPolicy(max_iterations=2))]
    campaign = run(here)
    assert kinds(campaign) == ["kept", "kept"]
    assert stopped(campaign).code == "max_iterations"
    assert stopped(campaign).limits == limits_in_force(campaign) == StopPolicy(max_iterations=2)
    (resumed,) = (event for event in here.records if event.kind == "resumed")
    assert "max_iterations is 2 from here on, in place of 1" in resumed.note


def test_by_hand_its_end_is_asked_for_as_well() -> None:
    here = world()
    engine = Engine(here.parts(), "test")
    engine.open()
    idea = fake_idea(here.target, "by hand")
    here.kernels.add(idea.candidate, time_s=0.5e-3)
    here.files.wishes = [Wishes(stop=True)]
    engine.submit(idea, by_hand=True)
    assert stopped(engine.campaign).code == "interrupted"


def test_ctrl_c_before_anything_was_recorded_leaves_nothing() -> None:
    here = world(0.5e-3)

    class Interrupting:
        def environment(self) -> None:
            raise KeyboardInterrupt

    parts = replace(here, devices=Interrupting()).parts()  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        Engine(parts, "test").run()
    assert here.records == []


def test_a_finished_campaign_stays_as_it_is() -> None:
    target = fake_target(stop=StopPolicy(max_iterations=1))
    here = world(0.5e-3, 0.4e-3, target=target)
    first = run(here)
    count = len(here.records)
    assert run(here) == first
    assert len(here.records) == count


@pytest.mark.rule("same-machine")
def test_another_machine_may_not_go_on() -> None:
    here = world(0.5e-3, interrupt_at=0)
    with pytest.raises(KeyboardInterrupt):
        run(here)
    memory = fake_device().memory_bytes - 4096
    here.environment = fake_environment(fake_device(cores=4, memory_bytes=memory))
    with pytest.raises(MachineError, match="differs in cores, caches\n"):
        run(here)


def test_a_machine_that_was_started_anew_may_go_on() -> None:
    here = world(0.5e-3, interrupt_at=0)
    with pytest.raises(KeyboardInterrupt):
        run(here)
    here.interrupt_at = None
    memory = fake_device().memory_bytes - 3 * 4096
    here.environment = fake_environment(fake_device(memory_bytes=memory))
    assert run(here).baseline is not None


def test_another_compiler_is_noted() -> None:
    here = world(0.5e-3, interrupt_at=0)
    with pytest.raises(KeyboardInterrupt):
        run(here)
    here.interrupt_at = None
    here.environment = here.environment.model_copy(update={"tools": {"gcc": "13.1"}})
    run(here)
    resumed = next(event for event in here.records if event.kind == "resumed")
    assert "gcc: gcc (Test) 12.2.0 -> 13.1" in resumed.note


def test_a_full_disk_loses_at_most_the_round_in_flight() -> None:
    here = world(0.5e-3, 0.4e-3)

    class FullDisk:
        def __init__(self, inner: object) -> None:
            self.inner = inner

        def events(self) -> list[object]:
            return self.inner.events()  # type: ignore[attr-defined,no-any-return]

        def append(self, event: object) -> None:
            if isinstance(event, Round) and event.round == 3:
                raise StorageError("no space left on device")
            self.inner.append(event)  # type: ignore[attr-defined]

    parts = here.parts()
    parts = replace(parts, ledger=FullDisk(parts.ledger))  # type: ignore[arg-type]
    with pytest.raises(StorageError):
        Engine(parts, "test").run()
    assert kinds(run(here)) == ["kept", "kept"]


def test_what_never_changed_is_not_measured_again() -> None:
    here = world(1.5e-3)
    campaign = run(here)
    assert kinds(campaign) == ["rolled_back"]
    assert campaign.baseline is not None
    assert stopped(campaign).final_timings == campaign.baseline.timings
    assert verify(here.records) == ()


def test_a_final_measurement_that_fails_is_told() -> None:
    here = world(0.5e-3)
    parts = here.parts()
    engine = Engine(parts, "test")
    engine.open()
    engine.submit(here.ideas[0])
    here.kernels.add(here.ideas[0].candidate, outcome=Crashed(reason="signal", detail="SIGBUS"))
    campaign = engine.finish(Stop("out_of_ideas", "no more ideas"))
    assert stopped(campaign).final_timings == ()
    assert "SIGBUS" in stopped(campaign).detail


def test_laps_add_up_to_all_time_and_keep_kernel_time_apart() -> None:
    clock = FakeClock()
    meter = Meter(clock)
    clock.advance(1)
    with meter.kernel():
        clock.advance(2)
    clock.advance(4)
    assert meter.running_s == 7
    assert meter.lap() == Lap(wall_s=7, kernel_s=2)
    clock.advance(8)
    with meter.kernel():
        clock.advance(16)
    assert meter.lap() == Lap(wall_s=24, kernel_s=16)
    assert meter.running_s == 0


def test_kernel_time_inside_kernel_time_counts_once() -> None:
    clock = FakeClock()
    meter = Meter(clock)
    with meter.kernel():
        clock.advance(1)
        with meter.kernel():
            clock.advance(2)
        clock.advance(4)
    assert meter.lap() == Lap(wall_s=7, kernel_s=7)


def test_a_tool_that_raises_was_still_running() -> None:
    clock = FakeClock()
    meter = Meter(clock)

    def interrupted() -> None:
        with meter.kernel():
            clock.advance(3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    clock.advance(1)
    with meter.kernel():
        clock.advance(5)
    assert meter.lap() == Lap(wall_s=9, kernel_s=8)
