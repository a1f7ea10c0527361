"""Logs only grow: nothing that comes later changes a line, and a correction is a new one."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaign_builder import (
    RoundKind,
    campaign_of,
    events_for,
    resumed,
    softmax_campaign,
    softmax_events,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import world, written

from roofsmith.api import render_report, verify_campaign
from roofsmith.domain.campaign import Baseline, Committed, Event, Masked, Round
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.logs import optimize_log, performance_trend
from roofsmith.report.plans import plan
from roofsmith.report.summarize import summarize
from roofsmith.store.memory import CORRECTION, appended

LOGS = ("logs/optimize.md", "logs/performance_trend.md")
AT = "2026-04-12 11:00:00"
TIMES_S = (0.5e-3, 0.8e-3, 0.25e-3)
aside_kinds = st.sampled_from(["commit", "mask", "unmask", "restart", "stop", "resume"])


def aside(kind: str, events: list[Event], draw: int) -> Event | None:
    """Something that may happen after these events; None if it can't."""
    campaign = campaign_of(events)
    holder = campaign.kept[-1] if campaign.kept else campaign.baseline
    numbers = [r.round for r in campaign.rounds]
    match kind:
        case "commit" if holder is not None:
            return Committed(round=holder.round, commit=f"{draw:012x}", at=AT)
        case "mask" if numbers:
            return Masked(rounds=(numbers[draw % len(numbers)],), by="hand", reason="no", at=AT)
        case "unmask" if campaign.masked:
            rounds = tuple(sorted(campaign.masked))
            return Masked(rounds=rounds, masked=False, by="command", reason="yes", at=AT)
        case "restart" if numbers:
            return Masked(rounds=(numbers[-1],), by="restart", reason="", seed=draw, at=AT)
        case "stop" if campaign.baseline is not None:
            return stopped_now()
        case "resume":
            return resumed()
    return None


def uncommitted(event: Event) -> Event:
    """As ledgers have it: a commit is a record of its own."""
    committed = isinstance(event, Baseline | Round)
    return event.model_copy(update={"commit": None}) if committed else event


def stopped_now() -> Event:
    return softmax_events()[-1].model_copy(update={"code": "regressions"})


@pytest.mark.rule("plans-stay")
@settings(max_examples=15, deadline=None)
@given(
    rounds=st.lists(st.sampled_from(RoundKind.__args__), max_size=4),
    asides=st.lists(st.tuples(st.integers(0, 5), aside_kinds, st.integers(0, 9)), max_size=6),
)
def test_whatever_happens_logs_and_plans_stay(
    rounds: list[RoundKind], asides: list[tuple[int, str, int]]
) -> None:
    events: list[Event] = []
    before: dict[str, str] = {}
    told = [uncommitted(event) for event in events_for(rounds)]
    for place, event in enumerate(told):
        events.append(event)
        for after, kind, draw in asides:
            if after == place and (found := aside(kind, events, draw)) is not None:
                events.append(found)
                before = grown(events, before)
        before = grown(events, before)


def grown(events: list[Event], before: dict[str, str]) -> dict[str, str]:
    campaign = campaign_of(events)
    summary = summarize(campaign)
    files = dict(
        zip(LOGS, (optimize_log(campaign, summary), performance_trend(summary)), strict=True)
    )
    for name in LOGS:
        assert files[name].startswith(before.get(name, "")), name
    plans = {f"v{s.number}": plan(campaign, summary, s) for s in summary.steps if s.hypothesis}
    assert {
        name: text for name, text in before.items() if name not in LOGS
    }.items() <= plans.items()
    return files | plans


def test_a_commit_that_was_made_anew_is_a_correction() -> None:
    told = softmax_events()[:3]
    bare = told[-1].model_copy(update={"commit": None})
    first = Committed(round=2, commit="aaaaaaaaaaaa", at=AT)
    anew = Committed(round=2, commit="bbbbbbbbbbbb", at=AT)
    log = render_campaign(campaign_of([*told[:-1], bare, first, anew])).files["logs/optimize.md"]
    assert "- commit `aaaaaaaaaaaa`\n" in log
    assert "correction, 2026-04-12 11:00: commit `bbbbbbbbbbbb` in place of `aaaaaaaaaaaa`" in log


def test_masks_and_resumes_are_told_where_they_happened() -> None:
    masked = Masked(rounds=(2, 3), by="command", reason="too noisy", at=AT)
    told = softmax_events()
    log = render_campaign(campaign_of([*told[:4], masked, resumed(), *told[4:]])).files[
        "logs/optimize.md"
    ]
    after, before = log.index("## Round 3"), log.index("## Round 4")
    assert after < log.index("planning doesn't see rounds 2, 3 any more; too noisy") < before
    assert after < log.index("resumed:") < before


def test_regressions_of_an_end_are_those_since_the_restart() -> None:
    """And an end that was told stays as it was told when a restart follows it."""
    told = [*events_for(["regression", "regression"]), stopped_now()]
    masked = Masked(rounds=(2,), by="restart", reason="", seed=1, at=AT)
    first = render_campaign(campaign_of(told)).files["logs/optimize.md"]
    second = render_campaign(campaign_of([*told, masked, stopped_now()])).files["logs/optimize.md"]
    assert second.startswith(first)
    assert "in a row up to here" in first
    assert "in a row up to here" not in second[len(first) :]


# -- the trend ----------------------------------------------------------------------------------


def totals(trend: str) -> list[float]:
    """Of the accepted rounds, as the file tells them."""
    rows = [line.split(" | ") for line in trend.splitlines() if line.startswith("| ")]
    return [float(row[6].strip("x")) for row in rows[1:] if row[2] in ("baseline", "kept")]


@pytest.mark.rule("trend-never-falls")
def test_the_trend_of_accepted_rounds_never_falls() -> None:
    found = totals(render_campaign(softmax_campaign()).files["logs/performance_trend.md"])
    assert len(found) == 4
    assert found == sorted(found)


@pytest.mark.rule("trend-never-falls")
def test_a_trend_that_falls_is_found() -> None:
    here = world(*TIMES_S)
    Engine(here.parts(), "test").run()
    totals_by_round = {2: 1.1, 3: 1.1, 4: 1.05}
    fallen = [
        event.model_copy(update={"total_speedup": totals_by_round[event.round]})
        if isinstance(event, Round)
        else event
        for event in here.records
    ]
    assert any("a total that doesn't fall" in found.what for found in verify(fallen))


# -- on disk ------------------------------------------------------------------------------------


@pytest.mark.rule("logs-grow")
def test_what_contradicts_a_log_follows_it() -> None:
    assert appended(b"one\ntwo\n", b"one\n") == b"one\ntwo\n"
    once = appended(b"ONE\n", b"one\n")
    assert once == b"one\n" + CORRECTION + b"ONE\n"
    assert appended(b"ONE\nTWO\n", once) == once + b"TWO\n"
    assert appended(b"ONE\n", once) == once
    quoting = b"one\n" + CORRECTION + b"a detail that quotes a log\n"
    assert appended(quoting, quoting) == quoting
    assert appended(quoting + b"two\n", quoting) == quoting + b"two\n"
    twice = appended(b"eins\n", once)
    assert twice == once + CORRECTION + b"eins\n"
    assert appended(b"eins\n", twice) == twice


@pytest.mark.rule("logs-grow")
@given(st.lists(st.binary(max_size=8), max_size=6))
def test_nothing_is_ever_lost(renderings: list[bytes]) -> None:
    found = b""
    for rendered in renderings:
        after = appended(rendered, found)
        assert after.startswith(found)
        assert after.endswith(rendered)
        assert appended(rendered, after) == after
        found = after


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    here = world(*TIMES_S)
    Engine(here.parts(), "test").run()
    return written(tmp_path / "campaign", here.records)


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("edit", ["change", "drop", "add"])
@pytest.mark.slow
def test_an_edited_log_is_found_and_corrected(directory: Path, name: str, edit: str) -> None:
    path = directory / name
    honest = path.read_text()
    edited = {
        "change": honest.replace("kept", "KEPT", 1),
        "drop": honest[: len(honest) // 2],
        "add": honest + "| 9 | I was faster |\n",
    }[edit]
    path.write_text(edited)
    assert [found.where for found in verify_campaign(directory).findings] == [name]
    render_report(directory)
    assert verify_campaign(directory).findings == ()
    assert path.read_text().startswith(edited)
    assert path.read_text().endswith(honest)


def test_a_baseline_is_the_first_row() -> None:
    assert isinstance(softmax_events()[1], Baseline)
    trend = render_campaign(campaign_of(softmax_events()[:2])).files["logs/performance_trend.md"]
    assert totals(trend) == [1.0]
