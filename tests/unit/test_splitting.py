"""A round whose classes diverge is followed by the dispatch of both kernels, on invented times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from roofsmith.analysis.regressions import regressions_in_a_row
from roofsmith.asking.sights import seen_dimensions
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.campaign import Campaign, Event, Kept, RolledBack, Round
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.dispatch import Dispatch, Threshold
from roofsmith.domain.kernel import Candidate, Signature
from roofsmith.domain.outcome import Incorrect, Outcome
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.target import StopPolicy, Target
from roofsmith.domain.workload import Workload
from roofsmith.engine.loop import Engine
from roofsmith.engine.repairing import repair_task
from roofsmith.engine.splitting import due_split
from roofsmith.engine.verify import verify
from roofsmith.ports import DimensionSource
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.summarize import summarize
from roofsmith.testing.engine import (
    FakeWorld,
    ProposerScript,
    fake_idea,
    fake_target,
)
from roofsmith.testing.judge import FakeKernels
from roofsmith.testing.merger import FakeMerger
from roofsmith.testing.toolchain import SCALE_PARAMETERS

SIZES = {"small": 1000, "medium": 50_000, "large": 500_000}
LABELS = {name: f"n={n}" for name, n in SIZES.items()}
OLD_S = 1e-3
SIGNATURE = Signature(parameters=SCALE_PARAMETERS)


def sized_target(**changes: object) -> Target:
    """Three workloads that differ by `n`, each in a class of its own."""
    workloads = tuple(Workload(dims={"n": n}, config_class=name) for name, n in SIZES.items())
    return fake_target(workloads=workloads, **changes)


def times(**by_class: float) -> dict[str, float]:
    """Seconds by label, from multiples of the incumbent's time."""
    return {LABELS[name]: OLD_S * factor for name, factor in by_class.items()}


DIVERGED = times(small=1.5, medium=1.0, large=0.5)
SPLIT = times(small=1.0, medium=1.0, large=0.5)
THRESHOLD = Dispatch(
    splits=2,
    rule=Threshold(dims=("n",), side="at_least", bound=500_000),
    within={"n": (1000, 500_000)},
    new=("large",),
    old=("small", "medium"),
)


@dataclass
class Story:
    """A campaign of one diverging idea, and of others behind it."""

    world: FakeWorld
    merged: Candidate

    def run(self, limits: StopPolicy | None = None) -> Campaign:
        return Engine(self.world.parts(), "test", limits).run()


def story(
    split: Mapping[str, float] = SPLIT,
    diverged: Mapping[str, float] = DIVERGED,
    outcome: Outcome | None = None,
    merger: FakeMerger | None = None,
    dispatch: Dispatch = THRESHOLD,
    more: int = 0,
    **world: Any,
) -> Story:
    target = world.pop("target", None) or sized_target()
    ideas = [fake_idea(target, f"idea {n}") for n in range(1 + more)]
    sights = {"n": DimensionSource("n")}
    old, new = target.baseline, ideas[0].candidate
    merged = FakeMerger()(old, new, dispatch, sights, SIGNATURE)
    assert isinstance(merged, Candidate)
    kernels = FakeKernels(default_time_s=OLD_S)
    kernels.add(new, on=diverged)
    kernels.add(merged, on=split, outcome=outcome)
    merger = merger or FakeMerger()
    return Story(FakeWorld(target, kernels, ideas, merger=merger, **world), merged)


def test_nobody_is_asked_to_split_what_was_split() -> None:
    steps = summarize(story().run()).next_steps
    assert not [step for step in steps if step.title.startswith("Split the kernel")]


def test_what_is_masked_from_planning_is_not_split() -> None:
    campaign = story().run()
    diverged = campaign.model_copy(update={"rounds": campaign.rounds[:1]})
    assert due_split(diverged) == campaign.rounds[0]
    assert due_split(diverged.model_copy(update={"masked": frozenset({2})})) is None


# -- the way it should go -------------------------------------------------------------------


@pytest.mark.rule("divergence-split")
def test_the_dispatch_is_the_next_round_and_is_kept() -> None:
    here = story()
    campaign = here.run()
    diverged, split = campaign.rounds
    assert isinstance(diverged.decision, RolledBack)
    assert diverged.decision.diverged
    assert diverged.unsplit is None
    assert split.splits == diverged.round == 2
    assert split.candidate == here.merged == campaign.incumbent
    assert isinstance(split.decision, Kept)
    assert split.decision.dispatch == THRESHOLD
    assert verify(here.world.records) == ()


def test_its_hypothesis_says_which_runs_where_and_promises_what_the_winners_gained() -> None:
    split = story().run().rounds[1]
    hypothesis = split.hypothesis
    assert (hypothesis.tactic, hypothesis.category) == ("split", "dispatch")
    assert "round 2's where n >= 500000, else the one before it" in hypothesis.statement
    assert hypothesis.target_class == "large"
    assert hypothesis.predicted_speedup == pytest.approx(2 ** (1 / 3), rel=0.02)
    assert [line.split(":")[0] for line in hypothesis.evidence] == ["large", "small"]


def test_the_proposer_is_told_of_its_own_rounds_only_and_asked_for_the_next_idea() -> None:
    here = story(more=1)
    proposer = ProposerScript(here.world.ideas)
    campaign = Engine(replace(here.world.parts(), proposer=proposer), "test").run()
    assert [r.hypothesis.tactic for r in campaign.rounds] == ["test:idea 0", "split", "test:idea 1"]
    assert [r.round for r in proposer.told] == [2, 4]


def test_a_confirmed_divergence_has_no_use_for_the_judges_clock() -> None:
    diverged = story(diverged=times(small=2.0, medium=1.0, large=0.5)).run().rounds[0]
    assert diverged.judgement.confirmation
    assert not diverged.judgement.clock


# -- kept only if the winners win and nobody loses ------------------------------------------


@pytest.mark.parametrize(
    ("split", "why"),
    [
        (times(small=1.2, medium=1.0, large=0.5), "slower"),
        (times(small=1.0, medium=1.0, large=1.0), "tie"),
    ],
)
def test_a_dispatch_that_does_not_deliver_is_rolled_back(
    split: Mapping[str, float], why: str
) -> None:
    here = story(split)
    campaign = here.run()
    assert why in campaign.rounds[1].decision.rule
    assert campaign.incumbent == here.world.target.baseline
    assert verify(here.world.records) == ()


def test_a_dispatch_that_diverges_itself_is_not_split_again() -> None:
    here = story(times(small=1.5, medium=1.0, large=0.5))
    split = here.run().rounds[1]
    assert split.unsplit == "it is a dispatch itself"
    assert due_split(here.run()) is None


def test_a_wrong_dispatch_is_nobodys_idea_to_repair() -> None:
    here = story(outcome=Incorrect(reason="outside_budget"), more=1)
    campaign = here.run()
    assert campaign.rounds[2].hypothesis.statement == "idea 1"
    then = campaign.model_copy(update={"rounds": campaign.rounds[:2]})
    assert repair_task(then) is None
    assert regressions_in_a_row(campaign.rounds[:2], 3) == ()


# -- when there is none ---------------------------------------------------------------------


def test_a_divergence_of_one_measurement_is_none() -> None:
    assert story(diverged=times(small=1.0, medium=1.0, large=0.5)).run().rounds[0].splits is None
    tied = story(diverged=times(small=1.5, medium=1.5, large=1.0)).run()
    assert [r.splits for r in tied.rounds] == [None]
    assert not tied.rounds[0].decision.diverged  # type: ignore[union-attr]


def test_what_cannot_be_merged_says_why_and_the_campaign_goes_on() -> None:
    here = story(merger=FakeMerger(refuses="they are built by different compilers"), more=1)
    campaign = here.run()
    assert campaign.rounds[0].unsplit == "they are built by different compilers"
    assert [r.splits for r in campaign.rounds] == [None, None]
    assert verify(here.world.records) == ()


@pytest.mark.rule("dispatch-dimensions")
def test_classes_that_no_dimension_tells_apart_say_so() -> None:
    workloads = tuple(
        Workload(dims={"n": 1000, "variant": at}, config_class=name)
        for at, name in enumerate(("a", "b"), start=1)
    )
    target = fake_target(workloads=workloads)
    here = story(
        target=target,
        diverged={"n=1000,variant=1": 1.5 * OLD_S, "n=1000,variant=2": 0.5 * OLD_S},
    )
    assert here.run().rounds[0].unsplit == "no rule over dimensions of n tells b from a"


def test_without_a_merger_nothing_follows() -> None:
    here = story()
    here.world.merger = None
    assert here.run().rounds[0].unsplit == "there is no way to make one kernel of two here"


# -- limits and counters --------------------------------------------------------------------


def test_a_dispatch_does_not_count_as_an_iteration() -> None:
    campaign = story(more=2).run(StopPolicy(max_iterations=2))
    assert [r.splits for r in campaign.rounds] == [None, 2, None]
    assert campaign.stopped.code == "max_iterations"


def test_a_diverged_round_counts_by_what_its_dispatch_comes_to() -> None:
    kept = story().run(StopPolicy(max_consecutive_regressions=1))
    assert [r.decision.kind for r in kept.rounds] == ["rolled_back", "kept"]
    lost = story(times(small=1.5, medium=1.5, large=1.5)).run()
    assert regressions_in_a_row(lost.rounds, 3) == (lost.rounds[1],)
    refused = story(merger=FakeMerger(refuses="no")).run()
    assert len(regressions_in_a_row(refused.rounds, 3)) == refused.rounds[0].decision.regression  # type: ignore[union-attr]


def test_no_dispatch_once_the_time_is_spent() -> None:
    here = story()
    here.world.clock.step_s = 10.0
    campaign = here.run(StopPolicy(budget_s=100.0))
    assert all(r.splits is None for r in campaign.rounds)


# -- what the ledger proves -----------------------------------------------------------------


def edited(records: list[Event], number: int, **update: Any) -> list[Event]:
    return [
        e.model_copy(update=update) if isinstance(e, Round) and e.round == number else e
        for e in records
    ]


@pytest.mark.parametrize(
    "update",
    [
        {"rule": Threshold(dims=("n",), side="at_least", bound=1)},
        {"new": ("small", "large")},
        {"within": {"n": (1, 10**9)}},
        {"splits": 3},
    ],
)
def test_another_dispatch_than_follows_is_found(update: dict[str, Any]) -> None:
    here = story()
    kept = here.run().rounds[1].decision
    forged = THRESHOLD.model_copy(update=update)
    records = edited(here.world.records, 3, decision=kept.model_copy(update={"dispatch": forged}))
    assert any("decision" in finding.what for finding in verify(records))


def test_a_divergence_that_was_hidden_or_made_up_is_found() -> None:
    here = story(more=1)
    rounds = here.run().rounds
    for number, says in ((2, False), (4, True)):
        decision = rounds[number - 2].decision
        changed = RolledBack(rule=decision.rule, diverged=says)
        records = edited(here.world.records, number, decision=changed)
        assert any(f.where == f"round {number}" for f in verify(records))


def test_a_split_of_what_did_not_diverge_is_found() -> None:
    here = story(more=1)
    here.run()
    found = verify(edited(here.world.records, 4, splits=2))
    assert any("round that it splits" in finding.what for finding in found)


# -- killed in between ----------------------------------------------------------------------


# -- what a kernel sees ---------------------------------------------------------------------


def described(scalars: dict[str, int], **shapes: tuple[int, ...]) -> WorkloadDescription:
    arrays = tuple(
        ArraySpec(name=name, role="input", dtype="float32", shape=shape)
        for name, shape in shapes.items()
    )
    return WorkloadDescription(
        arrays=arrays, scalars=scalars, flops=None, bytes=None, atol=None, rtol=None
    )


def test_a_c_kernel_sees_the_numbers_that_it_is_passed() -> None:
    workloads = (Workload(dims={"n": 4, "batch": 2}), Workload(dims={"n": 8, "batch": 2}))
    descriptions = {w.label: described({"n": w.dims["n"]}, x=(2, w.dims["n"])) for w in workloads}
    assert seen_dimensions(workloads, SIGNATURE, descriptions) == {"n": DimensionSource("n")}


def test_a_number_that_is_not_the_dimension_of_its_name_is_not_seen() -> None:
    workloads = (Workload(dims={"n": 4}),)
    descriptions = {w.label: described({"n": 5}) for w in workloads}
    assert seen_dimensions(workloads, SIGNATURE, descriptions) == {}


def test_a_module_sees_shapes_too() -> None:
    workloads = tuple(Workload(dims={"M": m, "K": 4, "H": 4}) for m in (4, 8))
    descriptions = {
        w.label: described({"H": 4}, a=(w.dims["K"], w.dims["M"]), b=(7, 4)) for w in workloads
    }
    assert seen_dimensions(workloads, Signature(parameters=()), descriptions) == {
        "M": DimensionSource("a", 1), "K": DimensionSource("a", 0), "H": DimensionSource("H"),
    }  # fmt: skip


def test_only_the_engine_proposes_a_dispatch() -> None:
    here = story(more=1)
    engine = Engine(here.world.parts(), "test")
    engine.open()
    proposal: Proposal = here.world.ideas[1].model_copy(update={"splits": 2})
    engine.submit(proposal)
    assert any("splits" in finding.what for finding in verify(here.world.records))


# -- what people read -----------------------------------------------------------------------


@pytest.mark.rule("dispatch-recorded")
def test_the_report_says_which_class_runs_which_kernel() -> None:
    files = render_campaign(story().run()).files
    runs_new = "large (2.00x): round 2's kernel, where n >= 500000"
    runs_old = "small (1.00x), medium (1.00x): the kernel before it"
    for name in ("rounds/round-3/summary.md", "logs/optimize.md", "final_report.md"):
        text = files[name].replace("\\", "")
        assert runs_new in text, name
        assert runs_old in text, name
    assert "large (2.00x)" in files["report.html"]
    assert "a dispatch is judged next" in files["rounds/round-2/summary.md"]
    assert "round 2's where n" in files["performance.md"]


def test_the_report_says_why_a_diverged_round_has_no_dispatch() -> None:
    files = render_campaign(story(merger=FakeMerger(refuses="the builds differ")).run()).files
    for name in ("rounds/round-2/summary.md", "final_report.md", "report.html"):
        assert "no dispatch follows: the builds differ" in files[name], name
