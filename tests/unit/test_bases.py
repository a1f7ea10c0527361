"""A change on top of an undecided one: both are judged against the incumbent, and kept together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from repository_bench import FASTER, ROWS, git, needs_git, run
from test_command_campaign import begin, here
from test_command_campaign import tell as told_by_command
from test_session import Open

from roofsmith.analysis.bases import MOST_UNDECIDED, bases, bundle
from roofsmith.api.session import ToldRounds
from roofsmith.asking.brief import document, markdown
from roofsmith.asking.proposing import proposal_of
from roofsmith.domain.answer import Answer, Edit
from roofsmith.domain.campaign import Event, Round
from roofsmith.domain.proposal import Planned, Proposal
from roofsmith.domain.refusal import BadAnswer
from roofsmith.domain.target import StopPolicy
from roofsmith.engine.recorder import commit_message
from roofsmith.engine.verify import verify
from roofsmith.errors import UsageError
from roofsmith.report.campaign_files import render_campaign
from roofsmith.store.asks import write_ask

__all__ = ["here"]  # a fixture

UNDECIDED_S = 0.99e-3


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    found = Open(tmp_path)
    found.engine.limit(StopPolicy(max_iterations=9))
    return found


def tell(opened: Open, name: str, time_s: float, **more: object) -> Round:
    told = told_of(opened, name, time_s, **more)
    assert told.refusal is None, told.refusal
    return told.rounds[0]


def told_of(opened: Open, name: str, time_s: float, **more: object) -> ToldRounds:
    opened.session.ask()
    return opened.session.tell(opened.change(name, time_s, **more))


def offered(opened: Open) -> list[int]:
    return [round_.round for round_ in bases(opened.engine.campaign)]


def answer(**more: object) -> Answer:
    values = {
        "statement": "And twice", "rationale": "a test", "evidence": ["B1"], "answers": "unknown",
        "edits": (Edit(path="kernel.c", search="/* first */", replace="/* first, second */"),),
    }  # fmt: skip
    return Answer.model_validate(values | more)


def proposed(opened: Open, given: Answer) -> Proposal:
    brief = opened.engine.brief()
    kind = brief.bottleneck.kind
    found = proposal_of(given.model_copy(update={"answers": kind}), brief, "somebody")
    assert isinstance(found, Proposal), found
    return found


@pytest.mark.rule("undecided-bases")
def test_both_are_kept_with_what_was_built_on(opened: Open) -> None:
    first = tell(opened, "first", UNDECIDED_S)
    assert first.decision.kind == "rolled_back"
    assert offered(opened) == [2]
    second = tell(opened, "second", 0.9e-3, base=2)
    assert (second.decision.kind, second.base) == ("kept", 2)
    assert second.incumbent_id == first.incumbent_id
    campaign = opened.engine.campaign
    assert [round_.round for round_ in bundle(campaign, second.base)] == [2]
    assert offered(opened) == []
    assert verify(opened.world.records) == ()
    files = render_campaign(campaign).files
    for text in (
        commit_message(second, campaign), files["rounds/round-3/hypothesis.txt"],
        files["plans/v2_plan.md"], files["final_report.md"], files["logs/optimize.md"],
        files["report.html"],
    ):  # fmt: skip
        assert "round 2, undecided" in text


def test_edits_apply_to_the_kernel_of_the_base(opened: Open) -> None:
    first = tell(opened, "first", UNDECIDED_S)
    made = proposed(opened, answer(base=2))
    assert made.base == 2
    expected = first.candidate.kernel.text.replace("/* first */", "/* first, second */")
    assert made.candidate.kernel.text == expected
    alone = proposal_of(answer(), opened.engine.brief(), "somebody")
    assert isinstance(alone, BadAnswer)


def test_the_brief_offers_it(opened: Open, tmp_path: Path) -> None:
    tell(opened, "first", UNDECIDED_S)
    tell(opened, "second", 1.2e-3)
    found = document(opened.engine.brief())
    assert [one["round"] for one in found["bases"]] == [2]
    assert "`base: 2`" in markdown(found)
    write_ask(tmp_path / "asked", found, "", {})
    assert "first" in (tmp_path / "asked" / "bases" / "round-2" / "kernel.c").read_text()


@pytest.mark.rule("undecided-bases")
def test_a_chain_has_an_end(opened: Open) -> None:
    base = None
    for step in range(MOST_UNDECIDED + 1):
        round_ = tell(opened, f"step {step}", UNDECIDED_S, base=base)
        assert round_.base == base
        base = round_.round
    refused = told_of(opened, "one too many", UNDECIDED_S, base=base).refusal
    assert refused.reason == "malformed"
    assert base not in offered(opened)


@pytest.mark.rule("undecided-bases")
@pytest.mark.parametrize("case", ["slower", "kept", "wrong", "unknown"])
def test_nothing_else_is_built_on(opened: Open, case: str) -> None:
    time_s = {"slower": 1.2e-3, "kept": 0.5e-3}.get(case, UNDECIDED_S)
    tell(opened, "first", time_s, wrong=case == "wrong")
    told = told_of(opened, "second", 0.4e-3, base=9 if case == "unknown" else 2)
    assert told.refusal is not None
    assert verify(opened.world.records) == ()


def test_nor_on_what_is_masked(opened: Open) -> None:
    tell(opened, "first", UNDECIDED_S)
    masked = opened.engine.campaign.model_copy(update={"masked": frozenset({2})})
    assert bases(masked) == ()


def test_another_incumbent_settles_it(opened: Open) -> None:
    tell(opened, "first", UNDECIDED_S)
    tell(opened, "faster", 0.5e-3)
    assert offered(opened) == []
    assert told_of(opened, "second", 0.4e-3, base=2).refusal is not None


def test_the_base_itself_is_no_change(opened: Open) -> None:
    first = tell(opened, "first", UNDECIDED_S)
    proposal = proposed(opened, answer(base=2)).model_copy(update={"candidate": first.candidate})
    refusal = opened.engine.submit(proposal)
    assert refusal.reason == "no_change"


def test_a_repair_has_the_base_of_its_idea(opened: Open) -> None:
    tell(opened, "first", UNDECIDED_S)
    tell(opened, "second", 0.9e-3, base=2, wrong=True)
    repaired = tell(opened, "second, mended", 0.9e-3, repair=True, hypothesis=None)
    assert (repaired.repairs, repaired.base, repaired.decision.kind) == (3, 2, "kept")
    assert verify(opened.world.records) == ()
    change = opened.change("third", 0.9e-3, repair=True, base=2)
    with pytest.raises(UsageError):
        opened.session.tell(change)


def test_a_base_that_is_none_is_found(opened: Open) -> None:
    tell(opened, "first", 1.2e-3)
    tell(opened, "second", 0.9e-3)
    records: list[Event] = [
        event.model_copy(update={"base": 2})
        if isinstance(event, Round) and event.round == 3
        else event
        for event in opened.world.records
    ]
    assert any(finding.where == "round 3" for finding in verify(records))
    place = next(n for n, e in enumerate(records) if isinstance(e, Planned) and e.round == 3)
    planned = records[place]
    assert isinstance(planned, Planned)
    on_it = planned.proposal.model_copy(update={"base": 2})
    records[place] = planned.model_copy(update={"proposal": on_it})
    assert [f.where for f in verify(records)] == [f"record {place + 1}"]


@needs_git
@pytest.mark.slow
def test_a_change_is_told_on_top_of_one_that_changes_nothing(here: Path) -> None:
    begin(here)
    undecided = ROWS.replace("40.0", "39.9")
    assert told_by_command(here, undecided)[1]["decision"] == "rolled_back"
    assert [base["round"] for base in json.loads(run("ask", "run")[1])["bases"]] == [2]
    code, told = told_by_command(here, FASTER, "--base", "2")
    assert (code, told["decision"], told["base"]) == (0, "kept", 2)
    assert run("verify", "run")[0] == 0
    said = git(here / "my repo", "log", "-1", "--format=%B", "optimize/run")
    assert "round 2, undecided" in said
