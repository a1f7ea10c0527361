"""Verification: a ledger's claims are recomputed, and anything that doesn't follow is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from worlds import world

from roofsmith.domain.campaign import Committed, Event, Kept, RolledBack, Round
from roofsmith.domain.comparison import PairSample
from roofsmith.domain.finding import Unsourced
from roofsmith.domain.inspection import Clean, Inspection
from roofsmith.domain.transfer import TransferCheck
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import VerifyFinding, verify
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_target
from roofsmith.testing.judge import FakeKernels


@pytest.fixture(scope="module")
def events() -> list[Event]:
    """Baseline, kept, rolled back, kept, stopped."""
    here = world(0.5e-3, 0.8e-3, 0.25e-3)
    Engine(here.parts(), "test").run()
    return here.records


def findings(events: list[Event], number: int, **update: Any) -> tuple[VerifyFinding, ...]:
    """What is found once a round is another."""
    edited = [
        e.model_copy(update=update) if isinstance(e, Round) and e.round == number else e
        for e in events
    ]
    return verify(edited)


def retimed(
    events: list[Event], part: str, times_s: Callable[[PairSample], tuple[float, ...]]
) -> list[Event]:
    """The candidate's times in some samples of round 2 made others."""
    (at,) = (n for n, e in enumerate(events) if isinstance(e, Round) and e.round == 2)
    round_ = events[at]
    assert isinstance(round_, Round)
    samples = tuple(
        sample.model_copy(update={"candidate_time_s": times_s(sample)})
        for sample in getattr(round_.judgement, part)
    )
    judgement = round_.judgement.model_copy(update={part: samples})
    return [*events[:at], round_.model_copy(update={"judgement": judgement}), *events[at + 1 :]]


def test_an_honest_ledger_follows(events: list[Event]) -> None:
    assert verify(events) == ()


def test_an_empty_ledger_proves_nothing() -> None:
    assert [finding.where for finding in verify([])] == ["ledger"]


def test_a_campaign_begins_with_its_start(events: list[Event]) -> None:
    assert verify(events[1:])[0].where == "record 1"


@pytest.mark.rule("recomputable")
def test_a_decision_that_was_turned_around(events: list[Event]) -> None:
    found = findings(events, 3, decision=Kept(rule="because I say so"))
    assert any("decision" in finding.what and finding.where == "round 3" for finding in found)


def test_a_win_that_was_hidden(events: list[Event]) -> None:
    found = findings(events, 2, decision=RolledBack(rule="not liked"))
    assert any("decision" in finding.what for finding in found)


@pytest.mark.rule("recomputable")
def test_samples_that_were_made_nicer(events: list[Event]) -> None:
    nicer = retimed(events, "confirmation", lambda s: tuple(t / 2 for t in s.candidate_time_s))
    assert any("comparison" in finding.what for finding in verify(nicer))


def test_a_gain_that_the_judges_clock_did_not_see(events: list[Event]) -> None:
    found = verify(retimed(events, "clock", lambda s: s.incumbent_time_s))
    assert any("the judge's clock" in finding.what for finding in found)


@pytest.mark.rule("from-the-incumbent")
def test_a_round_against_another_incumbent(events: list[Event]) -> None:
    found = findings(events, 3, incumbent_id="0123456789abcdef")
    assert "incumbent" in found[0].what


def test_a_round_that_was_left_out(events: list[Event]) -> None:
    without = [e for e in events if not (isinstance(e, Round) and e.round == 3)]
    assert any("number" in finding.what for finding in verify(without))


@pytest.mark.rule("baseline-unmodified")
def test_another_baseline_than_the_targets_kernel(events: list[Event]) -> None:
    other = fake_idea(fake_target(), "other").candidate
    changed = [
        e.model_copy(update={"candidate": other}) if e.kind == "baseline" else e for e in events
    ]
    assert any("not the target's kernel" in finding.what for finding in verify(changed))


def test_a_confirmation_that_nothing_led_to(events: list[Event]) -> None:
    lost = retimed(events, "samples", lambda s: s.incumbent_time_s)
    found = [finding.what for finding in verify(lost)]
    assert any("measure again" in what for what in found)
    assert any("second measurement" in what for what in found)


@pytest.mark.rule("commit-per-keep")
def test_a_commit_of_a_round_that_was_not_kept(events: list[Event]) -> None:
    stray = Committed(round=3, commit="0" * 40, at="2026-01-01 00:00:00")
    assert verify([*events, stray])[0].what.startswith("a commit of round 3 is recorded")


def test_a_gain_that_the_judges_clock_saw_smaller(events: list[Event]) -> None:
    smaller = retimed(events, "clock", lambda s: tuple(t * 1.3 for t in s.candidate_time_s))
    assert any("comparison" in finding.what for finding in verify(smaller))


INSPECTION = Inspection(workload="n=1", reports=(Clean(tool="memcheck"),))
TRANSFER = TransferCheck(bucket="K1", untraced="no device")


def a_round() -> dict[str, Any]:
    target = fake_target()
    here = FakeWorld(target, FakeKernels(), [fake_idea(target, "idea")])
    return Engine(here.parts(), "test").run().rounds[0].model_dump(mode="json")


def older(finding: Inspection | TransferCheck) -> dict[str, Any]:
    return finding.model_dump(mode="json", exclude={"kind"})


def test_a_round_says_which_finding_is_of_what() -> None:
    unsourced = Unsourced(numbers=("228 KB",))
    document = a_round() | {
        "findings": [one.model_dump(mode="json") for one in (INSPECTION, TRANSFER, unsourced)]
    }
    found = Round.model_validate(document)
    assert (found.inspection, found.transfer) == (INSPECTION, TRANSFER)
    assert found.findings[2] == unsourced
    assert Round.model_validate_json(found.model_dump_json()) == found


def test_an_older_ledger_has_a_field_for_each() -> None:
    document = a_round()
    del document["findings"]
    both = document | {"inspection": older(INSPECTION), "transfer": older(TRANSFER)}
    assert Round.model_validate(both).findings == (INSPECTION, TRANSFER)
    one = document | {"inspection": None, "transfer": older(TRANSFER)}
    assert Round.model_validate(one).findings == (TRANSFER,)
    assert Round.model_validate(document | {"inspection": None}).findings == ()
    assert Round.model_validate(document).findings == ()


def test_what_is_no_finding_is_refused() -> None:
    for wrong in ({"inspection": "clean"}, {"findings": [{"kind": "hearsay"}]}):
        with pytest.raises(ValidationError):
            Round.model_validate(a_round() | wrong)
