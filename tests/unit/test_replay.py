"""Recorded changes come in order, also after a resume, also out of a ledger."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.outcome import Incorrect, Passed
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.domain.refusal import Refusal
from roofsmith.engine.repairing import repair_task
from roofsmith.errors import UsageError
from roofsmith.ports import Brief
from roofsmith.proposers.portfolio import Portfolio
from roofsmith.proposers.recipe_proposer import RecipeProposer
from roofsmith.proposers.replay import ReplayProposer, read_proposals
from roofsmith.proposers.sweep import SweepProposer
from roofsmith.store.ledger import JsonlLedger
from roofsmith.testing.proposer import (
    FakeScreen,
    ProposerConformance,
    ScriptedProposer,
    advance,
    brief_for,
)


def candidate(text: str = "void solve(float *out, int N) { out[0] = N; }\n") -> Candidate:
    return Candidate(language="c", sources=(SourceFile(path="solve.c", text=text),))


def change(number: int) -> Proposal:
    hypothesis = Hypothesis(statement=f"Change {number}", rationale="recorded", tactic="replay")
    return Proposal(hypothesis=hypothesis, candidate=candidate(f"/* {number} */\n"))


screen = FakeScreen()


CHANGES = [change(number) for number in range(4)]


@pytest.mark.parametrize("kept", [True, False])
def test_a_new_instance_goes_on_with_the_next_one(kept: bool) -> None:
    brief = brief_for(candidate())
    for expected in CHANGES:
        proposal = ReplayProposer(CHANGES).ask(brief, screen)
        assert proposal == expected
        brief = advance(brief, expected, kept=kept)
    assert ReplayProposer(CHANGES).ask(brief, screen) is None


def test_rounds_of_others_are_passed_over() -> None:
    brief = advance(brief_for(candidate()), change(99), kept=True)
    brief = advance(brief, CHANGES[0], kept=False)
    brief = advance(brief, change(98), kept=True)
    assert ReplayProposer(CHANGES).ask(brief, screen) == CHANGES[1]


def test_a_candidate_that_was_formatted_meanwhile_still_counts() -> None:
    formatted = CHANGES[0].model_copy(update={"candidate": candidate("/*  0  */\n")})
    brief = advance(brief_for(candidate()), formatted, kept=True)
    assert ReplayProposer(CHANGES).ask(brief, screen) == CHANGES[1]


def test_the_same_change_recorded_twice_is_proposed_twice() -> None:
    twice = [CHANGES[0], CHANGES[0]]
    brief = advance(brief_for(candidate()), CHANGES[0], kept=False)
    assert ReplayProposer(twice).ask(brief, screen) == CHANGES[0]
    assert ReplayProposer(twice).ask(advance(brief, CHANGES[0], kept=False), screen) is None


def test_a_file_of_proposals(tmp_path: Path) -> None:
    path = tmp_path / "changes \n'ü'.jsonl"
    path.write_text("\n\n".join(p.model_dump_json() for p in CHANGES) + "\n", encoding="utf-8")
    assert read_proposals(path) == tuple(CHANGES)
    assert ReplayProposer(read_proposals(path)).ask(brief_for(candidate()), screen) == CHANGES[0]


def test_the_ledger_of_another_campaign(tmp_path: Path) -> None:
    ledger = JsonlLedger(tmp_path / "ledger.jsonl")
    brief = brief_for(candidate())
    ledger.append(brief.campaign.started)
    for proposal in CHANGES:
        brief = advance(brief, proposal, kept=True)
        ledger.append(brief.campaign.rounds[-1])
    assert read_proposals(ledger.path) == tuple(CHANGES)


@pytest.mark.parametrize(
    "line", ["not json", "[]", "{}", '{"kind": "round"}', json.dumps({"hypothesis": 1})]
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "changes.jsonl"
    path.write_text(f"{CHANGES[0].model_dump_json()}\n{line}\n")
    with pytest.raises(UsageError, match=r"changes\.jsonl:2: neither") as caught:
        read_proposals(path)
    assert caught.value.hint


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="missing"):
        read_proposals(tmp_path / "missing.jsonl")
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"binary\.jsonl"):
        read_proposals(binary)


def test_what_was_refused_is_behind() -> None:
    brief = brief_for(candidate())
    refusal = Refusal(
        reason="no_change", detail="nothing", after_round=1, proposer="replay",
        hypothesis=CHANGES[0].hypothesis, candidate_id=CHANGES[0].candidate.id, wall_s=0, at="",
    )  # fmt: skip
    campaign = brief.campaign.model_copy(update={"refusals": (refusal,)})
    assert ReplayProposer(CHANGES).ask(replace(brief, campaign=campaign), screen) == CHANGES[1]


# -- repairs ---------------------------------------------------------------------------------


def repaired(number: int, attempt: int) -> Proposal:
    return change(number).model_copy(
        update={"candidate": candidate(f"/* {number}, {attempt} */\n"), "repair": True}
    )


SCRIPT = [change(0), repaired(0, 1), repaired(0, 2), change(1)]
WRONG = Incorrect(reason="outside_budget", detail="y[3] is nan")


def after(brief: Brief, proposal: Proposal, *, wrong: bool) -> Brief:
    """The brief after a round was made of the proposal, and was wrong or slower."""
    brief = advance(brief, proposal, kept=False)
    last = brief.campaign.rounds[-1]
    idea = brief.campaign.rounds[-2].idea if proposal.repair else None
    judgement = last.judgement.model_copy(update={"outcome": WRONG if wrong else Passed()})
    last = last.model_copy(update={"repairs": idea, "judgement": judgement})
    rounds = (*brief.campaign.rounds[:-1], last)
    campaign = brief.campaign.model_copy(update={"rounds": rounds})
    return replace(brief, campaign=campaign, repair=repair_task(campaign))


def test_recorded_repairs_come_where_the_result_is_wrong_again() -> None:
    brief = brief_for(candidate())
    for expected in SCRIPT[:3]:
        assert ReplayProposer(SCRIPT).ask(brief, screen) == expected
        brief = after(brief, expected, wrong=True)
    assert ReplayProposer(SCRIPT).ask(brief, screen) is None
    assert ReplayProposer(SCRIPT).ask(replace(brief, repair=None), screen) == SCRIPT[3]


@pytest.mark.parametrize("repairs", [0, 1, 2])
def test_recorded_repairs_that_are_not_needed_are_passed_over(repairs: int) -> None:
    brief = brief_for(candidate())
    for place in range(repairs + 1):
        brief = after(brief, SCRIPT[place], wrong=place < repairs)
    assert ReplayProposer(SCRIPT).ask(brief, screen) == SCRIPT[3]
    brief = after(brief, SCRIPT[3], wrong=False)
    assert ReplayProposer(SCRIPT).ask(brief, screen) is None


def test_what_has_no_repair_recorded_is_dropped() -> None:
    brief = after(brief_for(candidate()), CHANGES[0], wrong=True)
    assert brief.repair is not None
    assert ReplayProposer(CHANGES).ask(brief, screen) is None
    assert Portfolio([ReplayProposer(CHANGES)]).ask(brief, screen) is None


def test_of_several_proposers_the_one_that_can_repair_it_does() -> None:
    brief = after(brief_for(candidate()), SCRIPT[0], wrong=True)
    proposers = (ReplayProposer([]), RecipeProposer(), SweepProposer(), ReplayProposer(SCRIPT))
    others = Portfolio(proposers)
    asked = others.ask(brief, screen)
    assert isinstance(asked, Proposal)
    assert (asked.candidate, asked.repair) == (SCRIPT[1].candidate, True)


def test_repairs_in_the_ledger_of_another_campaign(tmp_path: Path) -> None:
    ledger = JsonlLedger(tmp_path / "ledger.jsonl")
    brief = brief_for(candidate())
    ledger.append(brief.campaign.started)
    for proposal in SCRIPT:
        brief = after(brief, proposal, wrong=True)
        ledger.append(brief.campaign.rounds[-1])
    assert read_proposals(ledger.path) == tuple(SCRIPT)


class TestReplayConformance(ProposerConformance):
    def proposer(self) -> ReplayProposer:
        return ReplayProposer(CHANGES)

    def brief(self) -> Brief:
        return brief_for(candidate())


class TestScriptedConformance(ProposerConformance):
    def proposer(self) -> ScriptedProposer:
        return ScriptedProposer([CHANGES[0], lambda brief: CHANGES[1], CHANGES[2]])

    def brief(self) -> Brief:
        return brief_for(candidate())


def test_texts_may_hold_line_ends_of_unicode(tmp_path: Path) -> None:
    odd = CHANGES[0].model_copy(update={"candidate": candidate("/* a\u2028b\x85c */\n")})
    path = tmp_path / "changes.jsonl"
    path.write_text(odd.model_dump_json() + "\n", encoding="utf-8")
    assert read_proposals(path) == (odd,)
