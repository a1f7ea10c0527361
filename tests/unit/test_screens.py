"""What commands print for people, where it isn't covered by whole runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaign_builder import RoundKind, campaign_of, events_for, profile, softmax_campaign
from rich.console import Console

from roofsmith.analysis.figures import percent
from roofsmith.analysis.fractions import fraction_of_timings
from roofsmith.api import FinishedCampaign, Verification
from roofsmith.api.views.records import lines_for, round_lines
from roofsmith.api.views.results import ERRORS, error_rows
from roofsmith.cli import show
from roofsmith.cli.output import print_table
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.ending import StopCode
from roofsmith.domain.examination import Check, Examination
from roofsmith.domain.outcome import Unstable
from roofsmith.domain.profile import Counter
from roofsmith.engine.verify import VerifyFinding
from roofsmith.report.summarize import summarize


def error(
    workload: str, inputs: str, norm: float, element: float, *, budget: float = 1e-6
) -> ErrorReport:
    return ErrorReport(
        workload=workload,
        inputs=inputs,
        output="y",
        norm_error=norm,
        norm_budget=budget,
        element_error=element,
        element_budget=budget,
        honest_norm_error=1e-7,
        honest_element_error=1e-7,
    )


def ended(campaign: Campaign) -> FinishedCampaign:
    return FinishedCampaign(
        campaign, Path("my run"), branch=None, wall_s=1.0, overhead_fraction=None
    )


def test_errors_are_told_by_the_inputs_that_came_nearest_to_a_budget() -> None:
    rows = error_rows(
        [
            error("N=1", "as drawn by setup", 1e-7, 2e-7),
            error("N=1", "spikes", 3e-8, 9e-7),
            error("N=2", "as drawn by setup", 1e-7, 1e-7),
        ]
    )
    assert rows == [
        ("N=1", "y", "spikes (worst of 2)", "3e-08", "1e-06", "9e-07", "1e-06"),
        ("N=2", "y", "as drawn by setup", "1e-07", "1e-06", "1e-07", "1e-06"),
    ]
    assert all(len(row) == len(ERRORS) for row in rows)


def test_an_error_where_none_is_allowed_is_the_worst() -> None:
    exact, wrong = (error("N=1", name, off, 0.0, budget=0.0) for name, off in (("a", 0), ("b", 1)))
    assert error_rows([exact, wrong])[0][2] == "b (worst of 2)"
    assert error_rows([wrong, exact])[0][2] == "b (worst of 2)"


@pytest.mark.parametrize(
    ("stop", "command"),
    [
        ("max_iterations", "roofsmith resume 'my run' --max-iterations"),
        ("interrupted", "roofsmith resume 'my run'  "),
    ],
)
def test_an_end_says_first_how_to_go_on(
    stop: StopCode, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show.finished(ended(campaign_of(events_for(["kept"], stop=stop))), as_json=False)
    _, _, following = capsys.readouterr().out.partition("next:\n")
    assert following.lstrip().startswith(command)


def test_an_end_and_its_report_tell_the_same_share_of_the_roofline(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of the final kernel alone: beside another one, on a busy machine, it took twice as long."""
    campaign = softmax_campaign()
    alone = tuple(
        timing.model_copy(update={"time_s": 2 * timing.time_s})
        for timing in campaign.stopped.final_timings
    )
    stopped = campaign.stopped.model_copy(update={"final_timings": alone})
    told = campaign.model_copy(update={"stopped": stopped})
    fraction = summarize(told).fraction
    assert fraction == pytest.approx((fraction_of_timings(campaign.stopped.final_timings) or 0) / 2)
    show.finished(ended(told), as_json=False)
    assert f"{percent(fraction)} of the roofline" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["kept", "tie", "inconclusive"])
def test_an_end_for_want_of_ideas_offers_a_resume_of_what_was_disturbed(
    kind: RoundKind, capsys: pytest.CaptureFixture[str]
) -> None:
    show.finished(ended(campaign_of(events_for([kind], stop="out_of_ideas"))), as_json=False)
    out = capsys.readouterr().out
    assert ("roofsmith resume 'my run' --proposer auto,agent:NAME" in out) == (
        kind != "inconclusive"
    )
    assert ("roofsmith apply 'my run'" in out) == (kind == "kept")


def test_a_share_is_printed_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    rate = Counter(name="branch_miss_rate", value=0.0123, unit="1")
    found = profile(1.0, 0.5).model_copy(update={"counters": (rate,)})
    show.profiles([found], as_json=False)
    assert "1.2%" in capsys.readouterr().out


CHANGE = "Share the loop over `i` out to 2 threads, row by row"
ROW = ("#2", "kept", "faster", "1.94x [1.89, 2.01]", "9.8%", CHANGE)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_a_narrow_table_loses_nothing_but_the_end_of_a_sentence(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("roofsmith.cli.output.table_console", lambda: Console(width=width))
    print_table(("round", "decision", "verdict", "speedup", "roofline", "change"), [ROW], shorten=5)
    out = capsys.readouterr().out
    assert all(cell in out for cell in ROW[:5])
    assert "Share the loop over `i` out" in out
    assert max(map(len, out.splitlines())) <= max(width, 50)


@pytest.mark.parametrize("kind", ["kept", "regression", "tie", "inconclusive", "build_failed"])
@pytest.mark.parametrize("width", [60, 72, 80, 110, 180])
def test_a_round_fits_the_screen(width: int, kind: RoundKind) -> None:
    (round_,) = campaign_of(events_for([kind])).rounds
    lines = ["".join(text for text, _ in line) for line in round_lines(round_, width)]
    assert max(map(len, lines)) <= width
    assert any(round_.judgement.verdict in line for line in lines)
    assert lines[-1].endswith("kept" if kind == "kept" else "rolled back")


def test_a_campaign_on_a_busy_machine_begins_with_that() -> None:
    campaign = softmax_campaign()
    calm = Check(area="processor", name="load", level="ok", detail="load average 0.1")
    busy = Check(area="processor", name="load", level="limited", detail="load average 7", fix="-")
    other = Check(area="profilers", name="perf", level="limited", detail="no counters", fix="-")

    def shown(*checks: Check) -> list[str]:
        found = Examination(
            subject="softmax", language="c", machine="host", checks=checks, readiness=()
        )
        begun = campaign.started.model_copy(update={"examination": found})
        return ["".join(text for text, _ in line) for line in lines_for(begun, campaign)]

    assert shown(busy, other) == [*shown(calm, other), "load      load average 7"]


@pytest.mark.parametrize("width", [60, 110])
def test_a_round_that_others_disturbed_says_so(width: int) -> None:
    campaign = campaign_of(events_for(["inconclusive"]))
    (round_,) = campaign.rounds
    assert lines_for(round_, campaign, width)[-1][-1][0] == "rolled back"
    seen = round_.judgement
    void = tuple(s.model_copy(update={"void": "threads waited"}) for s in seen.samples)
    disturbed = seen.model_copy(update={"samples": void})
    lines = lines_for(round_.model_copy(update={"judgement": disturbed}), campaign, width)
    last = "".join(text for text, _ in lines[-1])
    assert f"{len(void)} of {len(void)} pairs" in last
    assert len(last) <= width


def test_what_is_said_of_many_files_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    other = "is another version's"
    many = tuple(VerifyFinding(f"rounds/round-{n}/summary.md", other) for n in range(1, 40))
    few = (
        VerifyFinding("ledger.jsonl:3", "was edited"),
        VerifyFinding("ledger.jsonl:4", "was edited"),
    )
    found = Verification(records=3, rounds=1, commits=0, findings=(*many, *few))
    show.verification(found, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "rounds/round-1/summary.md and 38 more: is another version's",
        "ledger.jsonl:3: was edited",
        "ledger.jsonl:4: was edited",
    ]


@pytest.mark.parametrize(
    ("kinds", "said"),
    [(["inconclusive"], True), (["inconclusive", "kept"], False), (["tie"], False)],
)
def test_a_campaign_that_decided_nothing_says_what_may_help(
    kinds: list[RoundKind], said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    show.finished(ended(campaign_of(events_for(kinds, stop="budget"))), as_json=False)
    assert ("undecided: 1 of 1 change: " in capsys.readouterr().out) == said


def test_a_round_that_the_incumbent_failed_in_blames_neither_change_nor_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    campaign = campaign_of(events_for(["inconclusive"], stop="budget"))
    (round_,) = campaign.rounds
    why = Unstable(reason="incumbent_failed", detail="the incumbent failed: 'y' off by 3.58e-06")
    failed = round_.judgement.model_copy(update={"outcome": why, "verdict": "rejected"})
    round_ = round_.model_copy(update={"judgement": failed})
    lines = lines_for(round_, campaign)
    assert "'y' off by 3.58e-06" in "".join(text for text, _ in lines[-1])
    spoiled = campaign.model_copy(update={"rounds": (round_,)})
    show.finished(ended(spoiled), as_json=False)
    out = capsys.readouterr().out
    assert "undecided: 1 of 1 change: the kernel that holds failed: the incumbent failed" in out
    assert "busy" not in out
    (step,) = [one for one in summarize(spoiled).next_steps if "kernel that holds" in one.title]
    assert "3.58e-06" in step.why
