"""A wrong result is repaired a few times before its idea is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from roofsmith.analysis.regressions import regressions_in_a_row
from roofsmith.domain.campaign import Campaign, Masked, Round
from roofsmith.domain.outcome import BuildFailed, Cheated, Crashed, Incorrect, Outcome
from roofsmith.domain.proposal import Proposal, RepairTask
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.target import StopPolicy
from roofsmith.engine.loop import Engine
from roofsmith.engine.repairing import nothing_to_repair, repair_task
from roofsmith.engine.verify import verify
from roofsmith.ports import Brief
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_repair, fake_target
from roofsmith.testing.judge import FakeKernels

WRONG = Incorrect(reason="outside_budget", detail="y[3] is nan")
FATES: dict[str, Outcome | float] = {
    "w": WRONG, "r": WRONG, "s": 1.5e-3, "f": 0.5e-3, "e": 1.0e-3,
}  # fmt: skip
"""The baseline takes 1 ms."""


def played(script: str, **stop: Any) -> FakeWorld:
    """A world whose rounds go by a script of letters.

    w: a wrong result of a new idea; r: a wrong repair; s, f, e: slower, faster or equal candidates
    of new ideas; S, F, E: the same of repairs.
    """
    target = fake_target(stop=StopPolicy(**stop))
    kernels, ideas = FakeKernels(), list[Proposal]()
    for number, letter in enumerate(script):
        if letter in "rSFE":
            first = next(idea for idea in reversed(ideas) if not idea.repair)
            idea = fake_repair(first, number)
        else:
            idea = fake_idea(target, f"idea {number}")
        ideas.append(idea)
        fate = FATES[letter.lower()]
        if isinstance(fate, float):
            kernels.add(idea.candidate, time_s=fate)
        else:
            kernels.add(idea.candidate, outcome=fate)
    return FakeWorld(target=target, kernels=kernels, ideas=ideas)


def run(world: FakeWorld) -> Campaign:
    campaign = Engine(world.parts(), "test").run()
    assert verify(world.records) == ()
    return campaign


def repairs(campaign: Campaign) -> list[int | None]:
    return [round_.repairs for round_ in campaign.rounds]


def code(campaign: Campaign) -> str:
    return campaign.stopped.code


def in_a_row(campaign: Campaign) -> int:
    return len(regressions_in_a_row(campaign.rounds, 3))


@pytest.mark.rule("repair-judged")
def test_a_repair_that_is_right_is_judged_like_any_change() -> None:
    campaign = run(played("wrFe"))
    assert repairs(campaign) == [None, 2, 2, None]
    assert [r.decision.kind for r in campaign.kept] == ["kept"]
    assert campaign.kept[0].round == 4
    assert len({r.hypothesis.statement for r in campaign.rounds[:3]}) == 1


@pytest.mark.rule("repair-three-times")
def test_after_three_repairs_the_idea_is_dropped() -> None:
    campaign = run(played("wrrrf"))
    assert repairs(campaign) == [None, 2, 2, 2, None]
    assert campaign.rounds[-1].decision.kind == "kept"


@pytest.mark.rule("repair-three-times")
def test_a_fourth_repair_is_refused() -> None:
    campaign = run(played("wrrrr"))
    assert repairs(campaign) == [None, 2, 2, 2]
    assert [refusal.reason for refusal in campaign.refusals] == ["bad_repair"]
    assert "3 times" in campaign.refusals[0].detail


def test_a_target_may_allow_none() -> None:
    campaign = run(played("wf", max_repairs=0))
    assert repairs(campaign) == [None, None]


@pytest.mark.rule("repair-wrong-results")
@pytest.mark.parametrize(
    ("outcome", "is_repaired"),
    [
        (WRONG, True),
        (Incorrect(reason="sanitizer_memcheck"), True),
        (Cheated(reason="below_floor"), False),
        (Crashed(reason="signal"), False),
        (BuildFailed(reason="compile_error"), False),
    ],
)
def test_what_is_repaired_is_a_wrong_result(outcome: Outcome, is_repaired: bool) -> None:
    here = played("e")
    here.kernels.add(here.ideas[0].candidate, outcome=outcome)
    task = repair_task(Engine(here.parts(), "test").run())
    assert (task is not None) is is_repaired
    if task is not None:
        assert task.candidate == here.ideas[0].candidate
        assert task.outcome == outcome


class Listening:
    """Notes the repairs that it is asked for, and has none."""

    name = "listening"

    def __init__(self, ideas: Sequence[Proposal]) -> None:
        self._ideas = list(ideas)
        self.tasks: list[RepairTask | None] = []

    def ask(self, brief: Brief, screen: object) -> Proposal | None:
        self.tasks.append(brief.repair)
        if brief.repair is not None:
            return None
        return self._ideas.pop(0) if self._ideas else None

    def tell(self, round: Round) -> None:
        """Nothing."""


@pytest.mark.rule("repair-told-why")
def test_the_proposer_is_told_what_was_wrong_and_may_drop_the_idea() -> None:
    here = played("we")
    proposer = Listening(here.ideas)
    parts = replace(here.parts(), proposer=proposer)
    campaign = Engine(parts, "test").run()
    asked = [task for task in proposer.tasks if task is not None]
    assert [(task.round, task.attempt, task.attempts_left) for task in asked] == [(2, 1, 3)]
    assert asked[0].outcome == WRONG
    assert asked[0].hypothesis == here.ideas[0].hypothesis
    assert [task is not None for task in proposer.tasks] == [False, True, False, False]
    assert repairs(campaign) == [None, None]


def test_attempts_are_counted_down() -> None:
    here = played("wrr")
    campaign = run(here)
    task = repair_task(campaign)
    assert (task.round, task.attempt, task.attempts_left) == (2, 3, 1)
    assert task.candidate == here.ideas[2].candidate


def test_the_last_round_has_its_repairs() -> None:
    campaign = run(played("wrFf", max_iterations=1))
    assert repairs(campaign) == [None, 2, 2]
    assert code(campaign) == "max_iterations"


@pytest.mark.rule("repair-uncounted")
def test_repairs_are_not_counted_as_rounds() -> None:
    campaign = run(played("wrFff", max_iterations=2))
    assert repairs(campaign) == [None, 2, 2, None]
    assert code(campaign) == "max_iterations"


class Deaf(Listening):
    """Answers a request for a repair with another idea."""

    name = "deaf"

    def ask(self, brief: Brief, screen: object) -> Proposal | None:
        return super().ask(replace(brief, repair=None), screen)


def test_another_idea_is_no_repair_and_gets_no_round_beyond_the_last() -> None:
    here = played("we", max_iterations=1)
    campaign = Engine(replace(here.parts(), proposer=Deaf(here.ideas)), "test").run()
    assert repairs(campaign) == [None]
    assert code(campaign) == "max_iterations"


def test_no_repair_is_begun_when_the_time_is_up() -> None:
    here = played("wF", budget_s=4.0)
    here.clock.step_s = 0.2
    campaign = run(here)
    assert code(campaign) == "budget"
    assert len(campaign.rounds) < 2


# -- the count of regressions ---------------------------------------------------------------


@pytest.mark.rule("repair-uncounted", "count-reset-failures")
@pytest.mark.parametrize(
    ("script", "count"),
    [
        ("sss", 3),
        ("sse", 0),
        ("ssf", 0),
        ("ssw", 2),
        ("sswr", 2),
        ("sswrrr", 0),
        ("sswe", 0),
        ("ssws", 1),
        ("sswrrrs", 1),
        ("sswrS", 3),
        ("sswE", 0),
        ("sswF", 0),
    ],
)
def test_what_resets_the_count(script: str, count: int) -> None:
    assert in_a_row(run(played(script, max_consecutive_regressions=9))) == count


@pytest.mark.rule("repair-judged")
def test_an_idea_that_is_slower_once_it_is_right_is_a_regression() -> None:
    campaign = run(played("sswrSf", max_consecutive_regressions=3))
    assert code(campaign) == "regressions"
    assert len(campaign.rounds) == 5


# -- what is no repair ----------------------------------------------------------------------


def opened(script: str) -> tuple[FakeWorld, Engine]:
    """A campaign after the rounds of a script, by hand."""
    here = played(script)
    engine = Engine(here.parts(), "test")
    engine.open()
    for idea in here.ideas:
        engine.submit(idea)
    return here, engine


@pytest.mark.parametrize(
    ("script", "why"),
    [("", "no round was judged yet"), ("e", "the result of round 2 wasn't wrong")],
)
def test_nothing_to_repair(script: str, why: str) -> None:
    here, engine = opened(script)
    refused = engine.submit(fake_repair(fake_idea(here.target, "idea 0"), 7))
    assert isinstance(refused, Refusal)
    assert refused.reason == "bad_repair"
    assert why in refused.detail


@pytest.mark.rule("repair-same-idea")
def test_a_repair_keeps_the_idea() -> None:
    here, engine = opened("w")
    refused = engine.submit(fake_repair(fake_idea(here.target, "another"), 7))
    assert isinstance(refused, Refusal)
    assert "round 2" in refused.detail


@pytest.mark.rule("repair-same-idea")
def test_a_repair_changes_what_was_wrong() -> None:
    here, engine = opened("w")
    refused = engine.submit(here.ideas[0].model_copy(update={"repair": True}))
    assert isinstance(refused, Refusal)
    assert refused.reason == "bad_repair"


def test_what_is_masked_from_planning_is_not_repaired() -> None:
    _, engine = opened("w")
    masked = engine.campaign.with_masks(
        Masked(rounds=(2,), by="command", reason="stale", at="2026-04-12 11:00:00")
    )
    assert repair_task(engine.campaign) is not None
    assert repair_task(masked) is None
    assert "round 2 is masked" in nothing_to_repair(masked)


def test_the_brief_for_a_proposer_outside_names_the_repair() -> None:
    _, engine = opened("wr")
    task = engine.brief().repair
    assert task.attempts_left == 2


@pytest.mark.parametrize("claim", [2, 3, 4])
def test_a_repair_that_is_none_is_found(claim: int) -> None:
    here = played("wee")
    run(here)
    edited = [
        event.model_copy(update={"repairs": claim})
        if isinstance(event, Round) and event.round == 4
        else event
        for event in here.records
    ]
    assert any("repair of round" in finding.what for finding in verify(edited))
