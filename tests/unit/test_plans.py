"""What is planned is on disk before it is built, and judged again if the process died over it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_session import Open

from roofsmith.analysis.hypotheses import lines
from roofsmith.api.session import Session
from roofsmith.domain.campaign import Campaign, Event, Resumed, Round, replay
from roofsmith.domain.options import SubmittedChange
from roofsmith.domain.proposal import Hypothesis, Planned, Proposal
from roofsmith.domain.refusal import Refusal
from roofsmith.engine.loop import Engine
from roofsmith.engine.planning import MOST_LOSSES
from roofsmith.engine.recorder import commit_message
from roofsmith.engine.verify import verify
from roofsmith.ports import Brief, Rendered, Screen
from roofsmith.report.campaign_files import render_campaign, render_plan
from roofsmith.testing.engine import (
    FakeWorld,
    Killed,
    ProposerScript,
    SideEffects,
    fake_idea,
    fake_target,
)
from roofsmith.testing.judge import FakeKernels

FULL = Hypothesis(
    statement="a statement", rationale="a rationale", evidence=("E1: a line",),
    facts=("a fact: 1 byte <- page.md:1",), answers="memory", expected_counter="a counter",
    expected_change="a change", expected_delta=0.25,
    expected_instruction="LDG.E.128", predicted_speedup=1.75, bucket="K2", category="tiling",
    risks="a risk", rollback="a rollback", sources=("a file",),
    searches=("a search",), again="a second try", tactic="a tactic", source="a source",
)  # fmt: skip


class Dear(ProposerScript):
    """Counts how often it is asked: an idea costs money."""

    asked = 0

    def ask(self, brief: Brief, screen: Screen) -> Proposal | None:
        Dear.asked += 1
        return super().ask(brief, screen)  # type: ignore[return-value]


def world(hypothesis: Hypothesis | None = None) -> FakeWorld:
    target = fake_target()
    idea = fake_idea(target, "dear").model_copy(update={"tokens": 1000, "proposer": "scripted"})
    if hypothesis is not None:
        idea = idea.model_copy(update={"hypothesis": hypothesis})
    kernels = FakeKernels()
    kernels.add(idea.candidate, time_s=0.5e-3)
    Dear.asked = 0
    return FakeWorld(target, kernels, [idea], proposer=Dear([idea]))


def run(here: FakeWorld) -> list[Event]:
    Engine(here.parts(), "test").run()
    return here.records


class DiesAfter(SideEffects):
    """Kills at the first side effect of a name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def step(self, name: str) -> None:
        super().step(name)
        if name == self._name:
            raise Killed(name)


def die_after(here: FakeWorld, name: str) -> None:
    here.effects = DiesAfter(name)
    with pytest.raises(Killed):
        run(here)
    here.effects = SideEffects()


def kinds(records: list[Event]) -> list[str]:
    return [event.kind for event in records]


@pytest.mark.rule("planned-first")
def test_a_plan_is_on_disk_before_its_round() -> None:
    records = run(world())
    place = kinds(records).index("planned")
    planned, round_ = records[place : place + 2]
    assert isinstance(planned, Planned)
    assert isinstance(round_, Round)
    assert planned.round == round_.round == 2
    assert planned.proposal.hypothesis == round_.hypothesis
    assert planned.proposal.candidate == round_.candidate
    assert (planned.proposal.proposer, planned.proposal.tokens) == ("scripted", 1000)


@pytest.mark.rule("planned-first")
def test_what_was_lost_is_judged_again_and_nobody_is_asked() -> None:
    here = world()
    die_after(here, "after appending planned")
    assert Dear.asked == 1
    records = run(here)
    assert kinds(records).count("planned") == 1
    (resumed,) = [event for event in records if isinstance(event, Resumed)]
    assert "round 2" in resumed.note
    campaign = replay(records)
    assert [r.decision.kind for r in campaign.rounds] == ["kept"]
    assert Dear.asked == 2  # for what comes after it
    assert verify(records) == ()
    assert "round 2" in render_campaign(campaign).files["logs/optimize.md"]


def test_what_kills_again_and_again_is_refused() -> None:
    here = world()
    die_after(here, "after appending planned")
    for _ in range(MOST_LOSSES - 1):
        die_after(here, "after appending resumed")
    records = run(here)
    (refusal,) = [event for event in records if isinstance(event, Refusal)]
    assert (refusal.reason, refusal.tokens) == ("lost", 1000)
    assert "round" not in kinds(records)
    assert verify(records) == ()
    unearned = [event for event in records if not isinstance(event, Resumed)]
    assert verify(unearned) != ()


def test_a_round_is_of_what_was_planned() -> None:
    records = run(world())
    place = kinds(records).index("round")
    other = FULL.model_copy(update={"statement": "thought of afterwards"})
    records[place] = records[place].model_copy(update={"hypothesis": other})
    assert any("hypothesis" in finding.what for finding in verify(records))


# -- told from outside ----------------------------------------------------------------------


def lost(folder: Path) -> tuple[Open, SubmittedChange]:
    """A session over a campaign whose process died over a change that was told; and that change."""
    found = Open(folder)
    change = found.change("first", 0.5e-3)
    held = found.world.target.baseline
    hypothesis = Hypothesis(statement="first", rationale="proposed from outside", tactic="external")
    proposal = Proposal(
        hypothesis=hypothesis,
        candidate=held.with_kernel_text(change.kernel.read_text()),
        proposer="tell",
    )
    found.world.records.append(Planned(round=2, proposal=proposal, at="2026-01-01 00:00:00"))
    found.engine = Engine(found.parts, "test")
    found.session = Session(folder, found.engine)
    return found, change


def test_a_lost_change_that_is_told_again_has_one_plan(tmp_path: Path) -> None:
    opened, change = lost(tmp_path)
    assert "Round 2 was planned" in opened.session.ask().markdown
    assert opened.session.tell(change).is_kept
    assert kinds(opened.world.records).count("planned") == 1
    assert verify(opened.world.records) == ()
    assert opened.session.ask().document["planned"] is None


def test_it_is_judged_before_another_one(tmp_path: Path) -> None:
    opened, _ = lost(tmp_path)
    told = opened.session.tell(opened.change("second", 0.2e-3))
    assert [r.hypothesis.statement for r in opened.engine.campaign.rounds] == ["first", "second"]
    assert told.rounds[0].round == 3
    assert verify(opened.world.records) == ()


# -- all of a hypothesis --------------------------------------------------------------------


def test_every_field_of_a_hypothesis_is_told() -> None:
    told = "\n".join(f"{label}: {text}" for label, text in lines(FULL))
    for name in Hypothesis.model_fields:
        value = getattr(FULL, name)
        for one in value if isinstance(value, tuple) else (value,):
            assert str(one) in told, name


@pytest.mark.rule("planned-first")
def test_plans_notes_commits_and_reports_tell_it() -> None:
    campaign = replay(run(world(FULL)))
    (round_,) = campaign.kept
    files = render_campaign(campaign).files
    names = (
        "rounds/round-2/hypothesis.txt", "plans/v1_plan.md", "memory/v1.json",
        "final_report.md", "report.html",
    )  # fmt: skip
    for text in (commit_message(round_, campaign), *(files[name] for name in names)):
        for one in ("a risk", "a rollback", "a file", "a search", "a second try", "tiling", "0.25"):
            assert one in text


@pytest.mark.rule("plan-first")
def test_the_plan_is_a_file_before_anything_is_built_and_stays_as_it_was() -> None:
    here = world(FULL)
    here.render = render_campaign
    seen: list[str] = []

    def planned(campaign: Campaign) -> Rendered:
        found = render_plan(campaign)
        seen.extend(found.files.values())
        assert campaign.rounds == ()
        return found

    engine = Engine(replace(here.parts(), render_plan=planned), "test")
    engine.run()
    assert seen == [here.files.files["plans/v1_plan.md"]]
    assert "a rationale" in seen[0]
    assert verify(here.records) == ()
