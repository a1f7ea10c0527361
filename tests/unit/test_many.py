"""Many campaigns on the page: filtered, side by side, with what all of them learned."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from campaign_builder import campaign_of, events_for, softmax_events
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import TypeAdapter
from test_report_hostile import EVIL, Page
from test_web import LARGEST, Site, serving, written

import roofsmith as module
from roofsmith.api.browsing import Experience
from roofsmith.api.comparing import course_of, floors
from roofsmith.api.dashboard import MOST_COMPARED, Dashboard
from roofsmith.domain.campaign import Event, Round, Started
from roofsmith.domain.dashboard import CampaignRow, Shown
from roofsmith.domain.experiment import Experiment
from roofsmith.domain.proposal import Hypothesis
from roofsmith.errors import StorageError, UnknownNameError
from roofsmith.experience.database import Database
from roofsmith.report.summarize import summarize

pytest.importorskip("fastapi")
TEMPLATES = Path(module.__file__ or "").parent / "web" / "templates"
ENVIRONMENT = Environment(
    loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined
)
ENVIRONMENT.filters |= {"breakable": str, "log10": math.log10}  # the page's own
CONTRACT: TypeAdapter[Shown] = TypeAdapter(Shown)


def named(
    events: Sequence[Event], name: str, device: str = "H200", proposers: Sequence[str] = ("sweep",)
) -> list[Event]:
    """The same campaign of another kernel, device and proposers."""
    first, *rest = events
    assert isinstance(first, Started)
    environment = first.environment.model_copy(
        update={"device": first.environment.device.model_copy(update={"name": device})}
    )
    target = first.target.model_copy(update={"name": name, "family": name.partition("-")[0]})
    new = {"target": target, "environment": environment, "proposers": tuple(proposers)}
    return [first.model_copy(update=new), *rest]


def slower(events: Sequence[Event], factor: float) -> list[Event]:
    """The same, but that each round took longer and cost something."""
    return [
        one.model_copy(update={"wall_s": one.wall_s * factor, "cost_usd": factor, "tokens": 1})
        if isinstance(one, Round) else one
        for one in events
    ]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("many")
    for repeat in (1, 2, 3):
        events = named(slower(softmax_events(), repeat), "softmax-a")
        written(here / f"softmax@{repeat}", events[: len(events) - 2 * repeat])
    written(here / "gemm", named(softmax_events(), "gemm-b", "MI300X", ("model:big", "recipes")))
    written(here / "begun", named(softmax_events(), "scan-c")[:1])
    written(here / "evil", named(softmax_events(), "scan-d", EVIL, (EVIL,)))
    return here


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[Site]:
    with serving(folder) as found:
        yield found


def test_campaigns_are_found_by_a_part_of_each_name(site: Site) -> None:
    def found(query: str) -> set[str]:
        rows = json.loads(site.page(f"/json{query}"))["campaigns"]
        return {Path(one["directory"]).name for one in rows}

    assert found("?kernel=SOFT") == {"softmax@1", "softmax@2", "softmax@3"}
    assert found("?device=mi300") == found("?proposer=model:big") == {"gemm"}
    assert found("?family=scan") == {"begun", "evil"}
    assert found("?family=scan&device=H200") == {"begun"}
    assert found("?kernel=nothing") == set()
    assert "No campaign matches" in Page(site.page("/?kernel=nothing")).text
    choices = json.loads(site.page("/json"))["choices"]
    assert choices["family"] == ["gemm", "scan", "softmax"]
    assert "MI300X" in choices["device"]


def test_what_is_not_read_yet_is_named_and_filled_in(folder: Path) -> None:
    shown = Dashboard([folder])
    at_once = shown.overview(within_s=0)
    assert at_once.campaigns == ()
    whole = shown.overview()
    assert whole.unread == ()
    assert [one.id for one in at_once.unread] == [one.id for one in whole.campaigns]
    assert at_once.choices == whole.choices
    assert not {"tried", "speedup"} & at_once.unread[0].model_fields_set


def test_repeats_are_a_band_and_others_a_curve(folder: Path) -> None:
    shown = Dashboard([folder])
    rows = {Path(one.directory).name: one for one in shown.overview().campaigns}
    repeats = [rows[f"softmax@{n}"] for n in (1, 2, 3)]
    found = shown.compare([one.id for one in (*repeats, rows["gemm"], rows["begun"])])
    band, alone = found.by_seconds
    assert set(band.campaigns) == {one.id for one in repeats}
    assert alone.campaigns == (rows["gemm"].id,)
    assert all(low == middle == high for _, low, middle, high in alone.points)
    assert all(low <= middle <= high for _, low, middle, high in band.points)
    ends = [one.speedup.value or 1.0 for one in repeats]
    totals = [course_of(campaign_of(_events(folder, one)))[-1][2] for one in repeats]
    assert band.points[-1][1:] == pytest.approx((min(totals), median(totals), max(totals)), 1e-4)
    assert max(ends) == pytest.approx(max(totals), rel=0.1)
    assert [one.campaigns for one in found.by_cost] == [band.campaigns]
    assert [len(kept) for kept in found.kept] == [one.kept for one in found.campaigns]


def _events(folder: Path, row: CampaignRow) -> list[Event]:
    from roofsmith.store.ledger import JsonlLedger

    return JsonlLedger(folder / Path(row.directory).name / "ledger.jsonl").events()


def test_side_by_side_are_the_same_workloads_and_what_was_not_measured_says_so(
    folder: Path,
) -> None:
    shown = Dashboard([folder])
    rows = {Path(one.directory).name: one for one in shown.overview().campaigns}
    found = shown.compare([rows["begun"].id, rows["gemm"].id])
    workloads = [one for one in found.rows if one.kind == "workload"]
    assert len(workloads) == len(campaign_of(softmax_events()).started.target.workloads)
    for one in workloads:
        unknown, known = one.speedups
        assert unknown.value is None
        assert unknown.reason
        assert known.value is not None
        assert known.value > 1
    with pytest.raises(UnknownNameError):
        shown.compare(["0"])
    assert len(shown.compare([one.id for one in rows.values()] * 9).campaigns) <= MOST_COMPARED


def test_every_document_is_in_the_contract(site: Site, folder: Path) -> None:
    ids = site.campaigns()
    one, other = ids["gemm"], ids["evil"]
    for path in ("", f"/campaign/{one}", f"/campaign/{one}/round/2", "/experience"):
        CONTRACT.validate_json(site.page(f"{path}/json"))
    CONTRACT.validate_json(site.page(f"/compare/json?id={one}&id={other}"))
    schema = CONTRACT.json_schema(mode="serialization")
    silent = {
        f"{name}.{field}"
        for name, one in schema["$defs"].items()
        for field, said in one.get("properties", {}).items()
        if {"type": "null"} in said.get("anyOf", ())
        and "description" not in said
        and "None: " not in one["description"]
    }
    reasons = {"Figure.value", "Figure.interval"}  # the figure's own `reason`
    suite = {name for name in silent if name.startswith("SuiteRow.")}  # the page's `unknown`
    assert silent == reasons | suite


@pytest.mark.parametrize("speedup", [1e-300, 1.0, 1.0001, 7e5, 1e30, 1.7e308, -1e308, 0.0])
def test_a_chart_is_drawn_of_any_figure_that_a_ledger_holds(tmp_path: Path, speedup: float) -> None:
    events = [
        one.model_copy(update={"total_speedup": speedup}) if isinstance(one, Round) else one
        for one in softmax_events()
    ]
    for name in ("a", "b"):
        written(tmp_path / name, named(events, "softmax-a"))
    shown = Dashboard([tmp_path])
    found = shown.compare([one.id for one in shown.overview().campaigns])
    assert len(found.by_seconds) == len(found.campaigns) // 2
    page = ENVIRONMENT.get_template("compare.html.j2").render(d=found, root="/r")
    assert Page(page).open == []


@pytest.mark.parametrize(("speedup", "axis"), [(3.0, ""), (900.0, "logarithmic")])
def test_ratios_over_decades_stand_on_a_logarithmic_axis(
    tmp_path: Path, speedup: float, axis: str
) -> None:
    events = [
        one.model_copy(update={"total_speedup": speedup}) if isinstance(one, Round) else one
        for one in softmax_events()
    ]
    written(tmp_path / "a", named(events, "softmax-a"))
    shown = Dashboard([tmp_path])
    found = shown.compare([one.id for one in shown.overview().campaigns])
    page = ENVIRONMENT.get_template("compare.html.j2").render(d=found, root="/r")
    assert ("logarithmic" in page) == bool(axis)
    marks = re.findall(r'y1="([\d.]+)" y2="\1"/><text[^>]*>([\d.]+)x<', page)
    heights = {float(name): float(y) for y, name in marks}
    assert len(heights) >= 3
    assert sorted(heights, key=heights.__getitem__, reverse=True) == sorted(heights)
    assert not axis or heights[10] - heights[100] == pytest.approx(heights[1] - heights[10], 0.02)


def test_limits_that_changed_between_campaigns_on_one_kernel_are_said(folder: Path) -> None:
    shown = Dashboard([folder])
    rows = [row for row in shown.overview().campaigns if row.kernel == "softmax-a"][:2]
    found = [summarize(campaign_of(_events(folder, row))) for row in rows]
    assert [*floors(rows, found)] == []
    first = found[0].workloads[0]
    later = replace(first, floor_time_s=1.5 * (first.floor_time_s or 1.0))
    found[0] = replace(found[0], workloads=(later, *found[0].workloads[1:]))
    (said,) = floors(rows, found)
    assert first.label in said
    assert all(row.name in said for row in rows)


def experiment(name: str, outcome: str, score: float, **more: object) -> Experiment:
    hypothesis = Hypothesis(
        statement=f"{name} {EVIL}", rationale="it should", tactic="told", predicted_speedup=1.5,
        insight=EVIL if name == "taught" else "",
    )  # fmt: skip
    return Experiment.model_validate(
        {"id": name, "time": "2026-11-30 10:00:00", "operator_sig": f"softmax {EVIL}",
         "backend": "cuda", "hypothesis": hypothesis, "status": "rolled_back", "outcome": outcome,
         "score": score, "diff": EVIL, "change_summary": f"{name} - told", **more}
    )  # fmt: skip


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "experience.db"
    Database(f"sqlite:///{path}").add([
        experiment("slow", "failure", 0.5), experiment("nearly", "failure", 0.99),
        experiment("taught", "failure", 0.99), experiment("hidden", "failure", 0.1, masked=True),
        experiment("won", "success", 2.0, status="kept"),
        experiment("again", "failure", 0.6, hypothesis=experiment("slow", "failure", 1).hypothesis),
    ])  # fmt: skip
    return path


def test_failures_worth_reading_come_first_and_words_find_the_others(database: Path) -> None:
    shown = Experience(f"sqlite:///{database}")
    failures = [(one.id, one.alike) for one in shown.page("failures").rows]
    assert failures == [("taught", 0), ("slow", 1), ("nearly", 0)]
    assert [one.id for one in shown.page("top").rows] == ["won"]
    assert {one.id for one in shown.page("latest", "nearly").rows} == {"nearly"}
    assert shown.page("top", kernel="gemm").reason
    assert shown.page("failures").rows[1].expected.value == 1.5
    with pytest.raises(UnknownNameError):
        shown.experiment("nobody")


def test_the_database_is_only_read(database: Path, tmp_path: Path) -> None:
    before = database.read_bytes()
    shown = Experience(f"sqlite:///{database}")
    shown.page("failures")
    shown.experiment("won")
    with pytest.raises(StorageError, match="readonly"):
        Database(f"sqlite:///{database}", only_reads=True).add([experiment("new", "failure", 0.1)])
    assert database.read_bytes() == before
    writer = Database(f"sqlite:///{database}")
    writer.add([experiment("late", "failure", 0.2)])
    assert "late" in {one.id for one in shown.page("latest").rows}
    nowhere = tmp_path / "none" / "experience.db"
    assert Experience(f"sqlite:///{nowhere}").page("top").reason
    assert not nowhere.parent.exists()
    database.write_bytes(before[:500] + b"\0" * 5_000)
    assert Experience(f"sqlite:///{database}").page("latest").reason
    assert [path.name for path in tmp_path.glob("*.db*") if "broken" in path.name] == []
    assert Experience(None).page("latest").reason


def test_what_experiments_and_campaigns_say_is_text(
    folder: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFSMITH_EXPERIENCE", f"sqlite:///{database}")
    with serving(folder) as site:
        evil = site.campaigns()["evil"]
        for path in ("/experience", "/experience?q=slow&kernel=%22%3E%3Cimg%20src=x%3E",
                     "/experience/taught", f"/compare?id={evil}",
                     "/?device=%22%3E%3Cimg%20src=x%3E"):  # fmt: skip
            text = site.page(path)
            shown = Page(text)
            assert shown.open == []
            assert not shown.tags & {"img", "iframe", "object", "embed", "base", "style"}
            assert text.count("<script") == 1
            assert not [n for n, _ in shown.attributes if n.startswith("on") or n == "style"]
            assert ("id", "pwned") not in shown.attributes
        assert "pwned" in Page(site.page("/experience")).text


def test_two_hundred_campaigns_come_in_pages(tmp_path: Path) -> None:
    short, long = events_for(["kept", "regression"]), events_for(["kept"] * 50)
    for number in range(200):
        events, device = (long if number > 180 else short), f"{EVIL}{'&' * 200}"
        events = slower(named(events, f"softmax-{number}{'x' * 190}", device, [EVIL] * 9), number)
        written(tmp_path / f"c{number:03}", events)
    with serving(tmp_path) as site:
        assert json.loads(site.page("/json"))["matching"] == 200
        last = json.loads(site.page("/json"))["pages"]
        for path in ("/", f"/?page={last}", "/?kernel=softmax-1", "/json"):
            assert len(site.page(path).encode()) < LARGEST
        ids = "&id=".join(site.campaigns().values())
        for path in (f"/compare?id={ids}", f"/compare/json?id={ids}"):
            assert len(site.page(path).encode()) < LARGEST
