"""What other versions of the rules concluded is a note; facts are facts in every version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rule_story import events_of, golden
from worlds import world, written

from roofsmith.analysis.heard import claimed_by
from roofsmith.analysis.rulebook import RULES
from roofsmith.api import verify_campaign
from roofsmith.cli import show
from roofsmith.domain.campaign import Event, Kept, Resumed, RolledBack, Round, Started, replay
from roofsmith.domain.diagnosis import Diagnosed
from roofsmith.domain.outcome import Incorrect
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verified
from roofsmith.testing.engine import FakeWorld

pytestmark = pytest.mark.slow

OLDER = range(1, RULES)


@pytest.mark.parametrize("version", range(1, RULES + 1))
def test_every_version_has_a_ledger(version: int) -> None:
    assert golden(version).is_file(), "PYTHONPATH=tests python tests/unit/rule_story.py"
    began = events_of(version)[0]
    assert isinstance(began, Started)
    assert began.rules == version


@pytest.mark.rule("rules-version")
def test_todays_rules_conclude_what_their_ledger_says() -> None:
    """If not, they are other rules: count `RULES` up, and tell the story once more."""
    found = verified(events_of(RULES))
    assert (found.findings, found.notes, found.versions) == ((), (), ())


@pytest.mark.rule("rules-version")
@pytest.mark.parametrize("version", OLDER)
def test_an_older_honest_ledger_has_no_findings(version: int) -> None:
    found = verified(events_of(version))
    assert found.findings == ()
    assert found.versions == (version,)
    assert {note.rules for note in found.notes} <= {version}


def test_what_changed_with_version_2_is_a_note() -> None:
    notes = verified(events_of(1)).notes
    assert any("it may be slower on small" in n.what for n in notes if n.where == "round 8")
    assert {note.where for note in notes} >= {f"round {n}" for n in (3, 4, 5, 8)}


# -- facts ----------------------------------------------------------------------------------


def edited(number: int, edit: Callable[[Round], Round]) -> list[Event]:
    """A ledger of version 1, with a round edited."""
    return [
        edit(event) if isinstance(event, Round) and event.round == number else event
        for event in events_of(1)
    ]


def findings(number: int, edit: Callable[[Round], Round]) -> list[str]:
    """Facts that an edit contradicts."""
    return [found.what for found in verified(edited(number, edit)).findings]


def updated(**update: Any) -> Callable[[Round], Round]:
    return lambda round_: round_.model_copy(update=update)


def judged(**update: Any) -> Callable[[Round], Round]:
    return lambda round_: round_.model_copy(
        update={"judgement": round_.judgement.model_copy(update=update)}
    )


def nicer(round_: Round) -> Round:
    samples = tuple(
        s.model_copy(update={"candidate_time_s": tuple(t / 2 for t in s.candidate_time_s)})
        for s in round_.judgement.confirmation
    )
    return judged(confirmation=samples)(round_)


def praised(round_: Round) -> Round:
    comparison = round_.judgement.comparison
    overall = comparison.overall.model_copy(update={"speedup": 2 * comparison.overall.speedup})
    return judged(comparison=comparison.model_copy(update={"overall": overall}))(round_)


@pytest.mark.parametrize(
    ("number", "edit", "finding"),
    [
        (2, nicer, "medians"),
        (4, praised, "medians"),
        (13, praised, "medians"),
        (8, updated(total_speedup=99.0), "total speedup"),
        (8, updated(roofline_fraction=0.99), "roofline fraction"),
        (8, updated(incumbent_id="0123456789abcdef"), "incumbent"),
        (2, judged(outcome=Incorrect(reason="outside_budget")), "outcome of what was kept"),
        (13, updated(decision=Kept(rule="because I say so")), "a gain of what was kept"),
    ],
)
def test_facts_are_checked_whatever_the_rules(
    number: int, edit: Callable[[Round], Round], finding: str
) -> None:
    found = findings(number, edit)
    assert any(finding in what for what in found), found


def test_a_clock_corrected_gain_may_be_the_claims_or_the_clocks() -> None:
    """Which of them counts is a conclusion, that it is one of them is a fact."""

    campaign = replay(events_of(1))
    assert campaign is not None

    def claimed(round_: Round) -> Round:
        found = claimed_by(round_.judgement, campaign.grounds())
        assert found is not None
        assert found != round_.judgement.comparison
        return judged(comparison=found)(round_)

    assert not any("medians" in what for what in findings(3, claimed))


def test_a_conclusion_of_older_rules_is_a_note() -> None:
    found = verified(edited(5, updated(decision=RolledBack(rule="for another reason"))))
    assert found.findings == ()
    assert any("another reason" in note.what for note in found.notes)


# -- going on by other rules ----------------------------------------------------------------


def begun_by_older_rules() -> FakeWorld:
    """One round was judged by version 1; another idea is left."""
    begun = world(0.5e-3, 0.8e-3, 0.25e-3)
    engine = Engine(begun.parts(), "test")
    engine.open()
    for idea in begun.ideas[:2]:
        engine.submit(idea)
    begun.records[0] = begun.records[0].model_copy(update={"rules": 1})
    return begun


def by_another_rule(world: FakeWorld, number: int) -> None:
    """Reword the decision of a round, as other rules would."""
    for at, event in enumerate(world.records):
        if isinstance(event, Round) and event.round == number:
            decision = event.decision.model_copy(update={"rule": "by another rule"})
            world.records[at] = event.model_copy(update={"decision": decision})


@pytest.mark.parametrize("by_hand", [False, True])
def test_what_comes_after_a_resume_is_held_to_its_rules(by_hand: bool) -> None:
    began = begun_by_older_rules()
    if by_hand:
        engine = Engine(began.parts(), "test")
        engine.take_up()
        engine.diagnose()
        engine.submit(began.ideas[2])
    else:
        Engine(began.parts(), "test").run()
    resumes = [event.rules for event in began.records if isinstance(event, Resumed)]
    assert resumes == [RULES]
    assert verified(began.records).findings == ()
    for number, is_finding in ((2, False), (4, True)):
        by_another_rule(began, number)
        found = verified(began.records)
        assert bool(found.findings) == is_finding
        assert any("by another rule" in note.what for note in found.notes)
    assert found.versions == (1,)


def test_a_diagnosis_says_by_which_rules_it_was_made() -> None:
    """It may come before anybody resumes: asking leaves a campaign as it is."""
    began = begun_by_older_rules()
    Engine(began.parts(), "test").diagnose()
    last = began.records[-1]
    assert isinstance(last, Diagnosed)
    assert last.rules == RULES
    began.records[-1] = last.model_copy(update={"level": 3})
    assert any("level 3" in found.what for found in verified(began.records).findings)


def test_newer_rules_than_ours_are_others_too() -> None:
    events = list(events_of(RULES))
    events[0] = events[0].model_copy(update={"rules": RULES + 1})
    assert verified(events).versions == (RULES + 1,)


# -- the command ----------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return written(tmp_path / "campaign", events_of(1))


def test_the_command_says_what_older_rules_decided(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = verify_campaign(directory)
    assert found.findings == ()
    show.verification(found, as_json=False)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("verified: ")
    assert f"decided by older rules (version 1; today's is {RULES})" in printed[1]
    assert printed[1].endswith(": 12 notes")
    assert printed.pop().startswith("not checked: commits: ")
    noted = [line.split(":")[1].strip() for line in printed[2:]]
    assert len(noted) == 12
    assert set(noted) >= {f"round {n}" for n in (3, 4, 5, 8)}


def test_files_of_other_rules_may_be_worded_otherwise(directory: Path) -> None:
    report = directory / "final_report.md"
    report.write_text(report.read_text().replace("kept", "taken"))
    found = verify_campaign(directory)
    assert found.findings == ()
    assert [note.where for note in found.notes if "another version's" in note.what] == [report.name]
    report.unlink()
    found = verify_campaign(directory)
    assert found.findings == ()
    assert any("is missing" in note.what for note in found.notes if note.where == report.name)
