"""A repository's metric without a unit of time is shown as what it is, and nowhere as seconds."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest
from campaign_builder import (
    WORKLOADS,
    bottleneck,
    campaign_of,
    crippled,
    events_for,
    profile,
    softmax_campaign,
)

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.fractions import fraction_of_candidate
from roofsmith.api import documents
from roofsmith.api.documents import metric_fields
from roofsmith.api.views.records import lines_for
from roofsmith.cli import show
from roofsmith.domain.bound import Bound
from roofsmith.domain.calibration import RoundScore, Score
from roofsmith.domain.campaign import Baseline, Campaign, Event, Round, Started, Stopped
from roofsmith.domain.command import CommandSpec, RunPair
from roofsmith.domain.diagnosis import (
    Attempt,
    BestKnown,
    Diagnosed,
    Diagnosis,
    Material,
    Reprofiled,
    WorkloadGap,
)
from roofsmith.domain.measure import TIME, Measure
from roofsmith.domain.memory import Memory
from roofsmith.domain.outcome import Passed
from roofsmith.domain.target import Target
from roofsmith.ports import Measured
from roofsmith.report.campaign_files import render_campaign

GOLDEN = Path(__file__).parent.parent / "golden" / "report_throughput"
GOLDEN_FILES = (
    "performance.md", "benchmark.md", "logs/optimize.md", "logs/performance_trend.md",
    "rounds/round-2/summary.md", "rounds/round-3/diagnosis-3.md", "memory/v1.json",
)  # fmt: skip
THROUGHPUT: dict[str, Any] = {"metric": "tokens_per_s", "direction": "higher"}
SIZE: dict[str, Any] = {"metric": "footprint", "unit": "MiB"}


def of_metric(**changes: Any) -> Campaign:
    """A campaign that kept a change, lost one, looked again, and ended, as another metric's."""
    events = events_for(["kept", "regression"], stop="regressions")
    spec = CommandSpec.model_validate(
        {"repo": "/r", "editable": ("a.c",), "benchmark": "./b", "rows": ("N", "D")} | changes
    )
    last = events.pop()
    events += [_diagnosed(campaign_of(events)), last]
    return campaign_of([_of_metric(event, spec) for event in events])


def _diagnosed(campaign: Campaign) -> Diagnosed:
    score = Score(predicted=None, measured=None, landing="unpredicted")
    attempt = Attempt(
        round=3, statement="x", tactic="t", category="tiling", answers="memory", came_to="slower",
        why="it is",
        score=RoundScore(
            round=3, tactic="t", category="tiling", speedup=score, counter=None, movement=score
        ),
    )  # fmt: skip
    profiles = tuple(
        Reprofiled(
            workload=label, config_class="all", time_s=time_s, profile=profile(1.0, 0.5),
            bottleneck=bottleneck("unknown", None),
        )
        for label, time_s in campaign.times_s.items()
    )  # fmt: skip
    gaps = tuple(
        WorkloadGap(workload=label, time_s=time_s, floor_time_s=None)
        for label, time_s in campaign.times_s.items()
    )
    material = Material(attempts=(attempt,), profiles=profiles, best_known=BestKnown(gaps=gaps))
    return Diagnosed(after_round=3, level=3, material=material, at="2026-04-12 10:08:00")


def _of_metric(event: Event, spec: CommandSpec) -> Event:
    """The same record of a repository whose metric has no roofline."""
    match event:
        case Started():
            target = Target(
                name="pa", language="command", kernel=event.target.kernel, command=spec,
                workloads=event.target.workloads,
            )  # fmt: skip
            return event.model_copy(update={"target": target, "bounds": tuple(_unbounded())})
        case Baseline():
            return event.model_copy(update={"timings": tuple(map(_floorless, event.timings))})
        case Stopped():
            timings = tuple(map(_floorless, event.final_timings))
            return event.model_copy(update={"final_timings": timings})
        case Round():
            found = event.judgement.comparison
            workloads = tuple(map(_floorless, found.workloads))
            comparison = found.model_copy(update={"workloads": workloads})
            assert fraction_of_candidate(comparison) is None
            update = {"comparison": comparison, "self_reported": True}
            judgement = event.judgement.model_copy(update=update)
            return event.model_copy(update={"judgement": judgement, "roofline_fraction": None})
        case _:
            return event


def _floorless(found: Any) -> Any:
    return found.model_copy(update={"floor_time_s": None})


def _unbounded() -> Iterator[Bound]:
    (unknown,) = crippled().started.bounds
    for workload in WORKLOADS:
        yield unknown.model_copy(update={"workload": workload.label})


def recorded(campaign: Campaign) -> Iterator[float]:
    """Every value that somebody measured, and the means of baseline and candidates."""
    groups = [
        [timing.time_s for timing in campaign.baseline.timings],
        [timing.time_s for timing in campaign.stopped.final_timings],
    ]
    for round_ in campaign.rounds:
        compared = round_.judgement.comparison.workloads
        groups += [[w.incumbent_time_s for w in compared], [w.candidate_time_s for w in compared]]
    yield from (value for group in groups for value in group)
    yield from map(geometric_mean, (groups[0], *groups[3::2]))


def pages(campaign: Campaign) -> dict[str, str]:
    files = render_campaign(campaign).files
    return {name: text.replace("\N{NO-BREAK SPACE}", " ") for name, text in files.items()}


@pytest.mark.rule("metric-is-named")
@pytest.mark.parametrize("metric", [THROUGHPUT, SIZE])
def test_nothing_that_is_rendered_calls_it_seconds(metric: dict[str, Any]) -> None:
    campaign = of_metric(**metric)
    measure = campaign.started.target.measure
    times = {fmt.time(value) for value in recorded(campaign)}
    values = {fmt.measured(value, measure) for value in recorded(campaign)}
    heading = re.compile(r'\| time(, self-reported)? \| (?!no)|class="n">time<')
    found = pages(campaign)
    for name, text in found.items():
        assert not [time for time in times if time in text], name
    unseen = {value for value in values if not any(value in text for text in found.values())}
    assert not unseen
    for name in ("performance.md", "logs/performance_trend.md", "benchmark.md", "report.html"):
        assert measure.name in found[name].replace("\\_", "_"), name
        assert not heading.search(found[name]), name
    shown = fmt.measured(campaign.times_s[WORKLOADS[0].label], measure, named=True)
    for name in ("logs/optimize.md", "rounds/round-3/diagnosis-3.md"):
        assert shown in found[name].replace("\\_", "_"), name


def test_the_note_of_a_round_has_the_metric_and_no_latency() -> None:
    campaign = of_metric(**THROUGHPUT)
    document = json.loads(render_campaign(campaign).files["memory/v1.json"])
    note = Memory.model_validate(document)
    metric, performance = note.performance.metric, note.performance
    assert (performance.latency_us, performance.latency_us_by_shape) == (None, {})
    assert performance.comparison_with_previous.latency_delta is None
    label, cost = next(iter(campaign.times_s.items()))
    assert metric.by_shape[label] == pytest.approx(1 / cost)
    assert note.speedup is not None
    assert metric.delta == pytest.approx(note.speedup - 1)
    of_times = json.loads(render_campaign(softmax_campaign()).files["memory/v1.json"])
    assert "metric" not in of_times["performance"]


def test_json_has_values_where_there_are_no_times() -> None:
    campaign = of_metric(**THROUGHPUT)
    named = metric_fields(campaign.started.target.measure)
    assert named["metric"] == {"name": "tokens_per_s", "unit": "", "direction": "higher"}
    timing = campaign.baseline.timings[0]
    (found, *_) = documents.measured_document(
        Measured(outcome=Passed(), timings=(timing,), errors=()), campaign.started.target.measure
    )["timings"]
    assert found["time_s"] is None
    assert found["value"] == pytest.approx(1 / timing.time_s)
    assert found["ci"][0] < found["value"] < found["ci"][1]
    seen = documents.diagnosis_document(
        Diagnosis(level=3, after_round=3, material=campaign.diagnoses[0].material),
        campaign.started.target.measure,
    )
    for row in (*seen["material"]["profiles"], *seen["material"]["best_known"]["gaps"]):
        assert row["time_s"] is None
        assert row["value"] == pytest.approx(1 / campaign.times_s[row["workload"]])
    assert metric_fields(softmax_campaign().started.target.measure) == {}


def test_a_terminal_shows_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    campaign = of_metric(**SIZE)
    ((_, (text, _)),) = lines_for(campaign.baseline, campaign, 120)
    first, second, _ = campaign.baseline.timings
    measure = campaign.started.target.measure
    mib = [fmt.measured(timing.time_s, measure) for timing in (first, second)]
    assert text.startswith(f"baseline  footprint {mib[0]}, {mib[1]}, ")
    assert mib[0].endswith(" MiB")
    measured = Measured(outcome=Passed(), timings=(first,), errors=())
    show.measured(measured, as_json=False, measure=measure)
    head, row = capsys.readouterr().out.splitlines()[1:3]
    assert "footprint" in head
    assert "time" not in head
    assert mib[0] in row


@pytest.mark.parametrize(
    ("recorded_value", "measure", "text", "named"),
    [
        (None, TIME, "UNKNOWN", "UNKNOWN"),
        (1.5e-3, TIME, "1.50 ms", "1.50 ms"),
        (1 / 123.4, Measure("tflops", "", False, True), "123.4", "tflops 123.4"),
        (1 / 123456, Measure("rate", "tok/s", False, True), "123456 tok/s", "rate 123456 tok/s"),
        (0.0421, Measure("size", "MiB", False), "0.04210 MiB", "size 0.04210 MiB"),
        (2e20, Measure("size", "", False), "2e+20", "size 2e+20"),
    ],
)
def test_a_value_is_shown_as_its_measure_reads_it(
    recorded_value: float | None, measure: Measure, text: str, named: str
) -> None:
    assert fmt.measured(recorded_value, measure) == text
    assert fmt.measured(recorded_value, measure, named=True) == named


def test_an_interval_keeps_its_order() -> None:
    rate = Measure("rate", "tok/s", False, True)
    assert fmt.measured_interval((1 / 130, 1 / 120), rate) == "[120.0, 130.0] tok/s"
    assert fmt.measured_interval((1.21e-3, 1.26e-3), TIME) == "[1.21 ms, 1.26 ms]"


def test_a_change_is_one_of_the_metric() -> None:
    assert TIME.change(2.0) == -0.5
    assert Measure("rate", "", False, True).change(2.0) == 1.0


def test_where_a_profiler_has_the_last_word_the_delta_is_of_its_time() -> None:
    campaign = of_metric(**THROUGHPUT, profile={"command": "p", "results": "p.csv"})
    pair = {"first": "incumbent", "incumbent_time_s": 2e-3, "candidate_time_s": 1e-3}
    pairs = tuple(RunPair.model_validate(pair | {"sweep": sweep}) for sweep in range(11))
    kept, slower = campaign.rounds
    judgement = kept.judgement.model_copy(update={"kernels": pairs})
    rounds = (kept.model_copy(update={"judgement": judgement}), slower)
    text = render_campaign(campaign.model_copy(update={"rounds": rounds})).files["performance.md"]
    assert "Delta: of the kernels' time by the target's profiler,\nagainst the row above" in text
    assert "| 476.0 | UNKNOWN | -50% |" in text


def test_a_column_with_signs_in_its_name_breaks_no_table() -> None:
    campaign = of_metric(metric="[GB|s *peak*]", direction="higher", unit="a|b")
    text = render_campaign(campaign).files["performance.md"]
    table = [line for line in text.splitlines() if line.startswith(("| at (UTC)", "| 2026"))]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1, table
    assert "101.3 a\\|b" in table[1]


@pytest.mark.parametrize("name", GOLDEN_FILES)
def test_golden(name: str) -> None:
    """Run with ROOFSMITH_UPDATE_GOLDEN=1 to accept what is rendered now, and read the diff."""
    text = re.sub(r"\b[0-9a-f]{16}\b", "<id>", render_campaign(of_metric(**THROUGHPUT)).files[name])
    path = GOLDEN / name
    if os.environ.get("ROOFSMITH_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
