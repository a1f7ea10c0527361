"""`roofsmith specs audit`, and the check of a hypothesis, on campaign directories on disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from campaign_builder import environment, softmax_events
from typer.testing import CliRunner

from roofsmith.api import audit_campaign
from roofsmith.api.citations import citation_check
from roofsmith.cli.root import cli
from roofsmith.config import Settings
from roofsmith.domain.bound import CeilingPair
from roofsmith.domain.campaign import Round, Started, replay
from roofsmith.domain.facts import FactSheet
from roofsmith.domain.proposal import Hypothesis
from roofsmith.errors import UsageError
from roofsmith.report.campaign_files import render_campaign
from roofsmith.specs.sheet import CeilingMeasurement, MeasurementFile, fact_sheet, render
from roofsmith.specs.wiki import Wiki
from roofsmith.specs.wiki_datasheet import datasheet_of
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.ledger import JsonlLedger
from roofsmith.testing.store import example_tip

PAGE = """\
schema_version: 1
id: my-card
identity:
  vendor:
    value: Mine
    unit: string
    source: {title: a, url: https://example.org/, locator: b}
    quality: primary
  product:
    value: My Card
    unit: string
    source: {title: a, url: https://example.org/, locator: b}
    quality: primary
  aliases: []
memory:
  bandwidth_byte_per_s:
    value: 1.5e+12
    unit: byte/s
    source: {title: a, url: https://example.org/, locator: b}
    quality: primary
"""
CLAIM = "bandwidth: 3.45 TB/s <- wiki/nvidia-h100-sxm5-80gb.yaml:296\n"
"""The page says 3.35."""
BANDWIDTH_LINE = PAGE.splitlines().index("    value: 1.5e+12") + 1


def measurements(rate: float = 2.31e10) -> MeasurementFile:
    """Two ceilings of the machine that the softmax campaign ran on."""
    common = {"threads": 2, "variant": "v", "spread": 0.01, "rounds": 9, "date": "2026-04-12 09:58"}
    return MeasurementFile(
        device=environment().device.id,
        compiler="gcc",
        measurements=(
            CeilingMeasurement.model_validate(
                {"kind": "bandwidth", "subject": "copy", "working_set_bytes": 1 << 28,
                 "rate": rate, **common}
            ),
            CeilingMeasurement.model_validate(
                {"kind": "fma", "subject": "float32", "rate": 1.98e11, **common}
            ),
        ),
    )  # fmt: skip


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Cache and wiki of a user of their own."""
    monkeypatch.setenv("ROOFSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ROOFSMITH_WIKI", str(tmp_path / "wiki"))
    (tmp_path / "wiki").mkdir()
    found = Settings.from_environment(
        {"ROOFSMITH_CACHE": str(tmp_path / "cache"), "ROOFSMITH_WIKI": str(tmp_path / "wiki")},
        tmp_path,
    )
    found.ceilings_dir.mkdir(parents=True)
    return found


@pytest.fixture
def ceilings(places: Settings) -> Path:
    """A file of kept measurements."""
    path = places.ceilings_dir / "ceilings-0a1b2c.json"
    path.write_text(render(measurements()))
    return path


@pytest.fixture
def campaign(tmp_path: Path, ceilings: Path) -> Path:
    """The softmax campaign as a directory, with facts that cite the file of measurements."""
    sheet = fact_sheet(environment().device, measurements().measurements, ceilings, 0.02)
    events = softmax_events()
    assert isinstance(events[0], Started)
    events[0] = events[0].model_copy(update={"facts": sheet, "bounds": _bounds(events[0], sheet)})
    directory = tmp_path / "run"
    with CampaignDirectory.create(directory) as files:
        ledger = JsonlLedger(files.ledger_path)
        for event in events:
            ledger.append(event)
        state = replay(events)
        assert state is not None
        files.write(render_campaign(state).files)
    return directory


def _bounds(first: Started, sheet: FactSheet) -> object:
    pair = CeilingPair(bandwidth=sheet.bandwidth[0].fact, peak=sheet.compute[0].fact)
    known = {"bandwidth": pair.bandwidth, "peak": pair.peak, "measured": pair}
    ridge = {"ridge": 1.98e11 / 2.31e10}
    return tuple(bound.model_copy(update=known | ridge) for bound in first.bounds)


def roofsmith(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_campaign_passes(campaign: Path) -> None:
    code, out, _ = roofsmith("specs", "audit", campaign)
    assert (code, out.count("\n")) == (0, 1)


def test_as_json(campaign: Path) -> None:
    code, out, _ = roofsmith("specs", "audit", campaign, "--json")
    document = json.loads(out)
    assert (code, document["passed"], document["problems"]) == (0, True, [])
    (campaign / "plans" / "v1_plan.md").write_text(f"# Plan\n\n{CLAIM}")
    code, out, _ = roofsmith("specs", "audit", campaign, "--json")
    (problem,) = json.loads(out)["problems"]
    assert code == 1
    assert (problem["file"], problem["line"], problem["kind"]) == ("plans/v1_plan.md", 3, "differs")
    assert problem["number"] == "3.45 TB/s"
    assert set(problem) == {"file", "line", "kind", "number", "why", "fix"}


@pytest.fixture
def boasting(campaign: Path) -> Path:
    """The same with a number that nobody sourced, as older ledgers hold them."""
    events = softmax_events()
    at = next(n for n, event in enumerate(events) if isinstance(event, Round))
    said = events[at].hypothesis.model_copy(update={"rationale": "It reaches 77.7 GB/s"})
    events[at] = events[at].model_copy(update={"hypothesis": said})
    directory = campaign.parent / "boasting"
    with CampaignDirectory.create(directory) as files:
        ledger = JsonlLedger(files.ledger_path)
        for event in events:
            ledger.append(event)
        files.write(render_campaign(replay(events)).files)
    return directory


@pytest.mark.rule("audited")
def test_a_number_without_a_source_is_found_in_a_ledger(boasting: Path) -> None:
    code, out, _ = roofsmith("specs", "audit", boasting, "--json")
    (problem,) = [one for one in json.loads(out)["problems"] if one["kind"] == "unsourced"]
    assert code == 1
    assert (problem["file"], problem["number"]) == ("rounds/round-2/hypothesis.txt", "77.7 GB/s")
    text = (boasting / problem["file"]).read_text().splitlines()
    assert "77.7 GB/s" in text[problem["line"] - 1]


@pytest.mark.rule("audited")
def test_a_number_without_a_source_makes_a_campaign_invalid(boasting: Path) -> None:
    code, out, _ = roofsmith("verify", boasting, "--json")
    document = json.loads(out)
    assert code == 1
    assert any("77.7 GB/s" in str(finding) for finding in document["findings"])
    assert not any("77.7 GB/s" in str(note) for note in document["notes"])


@pytest.mark.rule("audited")
def test_verify_notes_what_pages_say_otherwise_and_contradicts_nothing_by_it(
    campaign: Path,
) -> None:
    (campaign / "mine.md").write_text(CLAIM)
    _, out, _ = roofsmith("verify", campaign, "--json")
    document = json.loads(out)
    assert any("3.45 TB/s" in str(note) for note in document["notes"])
    assert not any("3.45 TB/s" in str(finding) for finding in document["findings"])


@pytest.mark.parametrize("again", [None, 2.5e10])
def test_a_measurement_that_was_made_again_or_deleted_fails_no_campaign(
    campaign: Path, ceilings: Path, again: float | None
) -> None:
    if again is None:
        ceilings.unlink()
    else:
        ceilings.write_text(render(measurements(again)))
    code, out, _ = roofsmith("specs", "audit", campaign)
    assert code == 0
    assert f"note: {ceilings} is gone or was measured again since: the ledger's own copy" in out


def test_a_measurement_is_read_where_it_lies(places: Settings, ceilings: Path) -> None:
    notes = places.campaigns_dir / "hand"
    (notes / "memory").mkdir(parents=True)
    note = notes / "memory" / "v0.json"
    note.write_text(json.dumps({"fact": f"copy bandwidth: 2.31e+10 byte/s <- {ceilings}:6"}))
    assert not audit_campaign(notes, places).problems
    for wrong in (f"3.31e+10 byte/s <- {ceilings}:6", f"2.31e+10 byte/s <- {ceilings}:60"):
        note.write_text(json.dumps({"fact": f"copy bandwidth: {wrong}"}))
        assert len(audit_campaign(notes, places).problems) == 1
    ceilings.write_text("{}")
    note.write_text(json.dumps({"fact": f"copy bandwidth: 2.31e+10 byte/s <- {ceilings}:6"}))
    assert [p.kind for p in audit_campaign(notes, places).problems] == ["unresolved"]


def test_a_page_of_the_user_s_own_counts_until_it_is_gone(places: Settings) -> None:
    assert places.wiki_dir is not None
    page = places.wiki_dir / "my-card.yaml"
    page.write_text(PAGE)
    notes = places.campaigns_dir / "hand"
    notes.mkdir(parents=True)
    (notes / "README.md").write_text(f"bandwidth: 1.5 TB/s <- {page}:{BANDWIDTH_LINE}\n")
    assert not audit_campaign(notes, places).problems
    page.write_text(PAGE.replace("1.5e+12", "1.6e+12"))
    assert [p.kind for p in audit_campaign(notes, places).problems] == ["differs"]
    page.write_text("# one line more\n" + PAGE)
    assert [p.kind for p in audit_campaign(notes, places).problems] == ["unresolved"]
    page.unlink()
    assert [p.kind for p in audit_campaign(notes, places).problems] == ["unresolved"]


def test_what_tips_cite_is_for_others_to_prove(campaign: Path, places: Settings) -> None:
    events = JsonlLedger(campaign / "ledger.jsonl").events()
    assert isinstance(events[0], Started)
    tips = (example_tip("a1").model_copy(update={"takeaway": CLAIM.strip()}),)
    state = replay([events[0].model_copy(update={"tips": tips}), *events[1:]])
    other = campaign.parent / "other"
    with CampaignDirectory.create(other) as files:
        JsonlLedger(files.ledger_path).append(state.started)
        files.write(render_campaign(state).files)
    assert "3.45 TB/s" in (other / "README.md").read_text()
    assert not audit_campaign(other, places).problems
    (other / "NOTES").write_text(CLAIM.replace("3.45", "3.55"))
    assert len(audit_campaign(other, places).problems) == 1


@pytest.mark.rule("facts-checked")
def test_a_page_that_changed_is_a_problem_of_the_ledger(campaign: Path, places: Settings) -> None:
    page = Wiki.load().page("nvidia-h100-sxm5-80gb")
    assert places.wiki_dir is not None
    own = places.wiki_dir / page.file.name
    own.write_text(page.file.read_text())
    ledger = JsonlLedger(campaign / "ledger.jsonl")
    events = ledger.events()
    assert isinstance(events[0], Started)
    sheet = datasheet_of(Wiki.load(places.wiki_dir).page(page.id))
    facts = events[0].facts.model_copy(update={"datasheet": sheet})
    other = campaign.parent / "other"
    other.mkdir()
    for event in (events[0].model_copy(update={"facts": facts}), *events[1:]):
        JsonlLedger(other / "ledger.jsonl").append(event)
    assert not audit_campaign(other, places).problems
    own.write_text(own.read_text().replace("3350000000000.0", "3.30e+12"))
    (problem,) = audit_campaign(other, places).problems
    assert (problem.file, problem.kind) == ("ledger.jsonl", "differs")


def test_a_ledger_that_was_edited_vouches_for_nothing(campaign: Path) -> None:
    ledger = campaign / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b"23100000000.0", b"33100000000.0"))
    code, out, _ = roofsmith("specs", "audit", campaign)
    assert code == 1
    assert out.startswith("ledger.jsonl:1: ")
    assert "README.md" in out


def test_sources_checkouts_and_tools_files_are_no_statements(campaign: Path) -> None:
    for name in ("rounds/round-1/kernel_snapshot/a.md", "rounds/round-1/artifacts/ncu.txt",
                 "profiles/x.txt", "worktree/a.md", "repo/a.md", ".git/x.md"):  # fmt: skip
        path = campaign / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CLAIM)
    (campaign / "rounds" / "round-1" / "dead.md").symlink_to("/nowhere")
    assert roofsmith("specs", "audit", campaign)[0] == 0
    (campaign / "rounds" / "round-1" / "notes.md").write_text(CLAIM)
    assert roofsmith("specs", "audit", campaign)[0] == 1


@pytest.mark.parametrize(
    "name", ["a.md", "a.txt", "a.LOG", "a.ipynb", "a.patch", "NOTES", "plans/PLAN"]
)
def test_what_is_read(campaign: Path, places: Settings, name: str) -> None:
    (campaign / name).write_text(CLAIM)
    assert [p.file for p in audit_campaign(campaign, places).problems] == [name]


def test_what_is_not_read(campaign: Path, places: Settings) -> None:
    (campaign / ".hidden").write_text(CLAIM)
    (campaign / "program").write_bytes(b"\x7fELF\0" + CLAIM.encode())
    assert not audit_campaign(campaign, places).problems


def test_bytes_that_are_no_text_are_read_all_the_same(campaign: Path) -> None:
    (campaign / "memory" / "v9.json").write_bytes(b"\xff\xfe" + CLAIM.encode())
    assert roofsmith("specs", "audit", campaign)[0] == 1


@pytest.mark.parametrize("name", ["missing", "empty", "file"])
def test_what_is_no_campaign_is_a_usage_error(places: Settings, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    code, _, err = roofsmith("specs", "audit", tmp_path / name)
    assert code == 2
    assert "try: " in err
    with pytest.raises(UsageError):
        audit_campaign(tmp_path / name, replace(places))


# -- hypotheses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fact", "kind"),
    [
        ("copy bandwidth: 2.31e+10 byte/s <- {ceilings}:6", None),
        ("copy bandwidth at 268435456 byte, 2 threads: 23.1 GB/s <- {ceilings}:6", None),
        ("bandwidth: 1.5 TB/s <- {page}", None),
        ("copy bandwidth: 3.31e+10 byte/s <- {ceilings}:6", "says"),
        ("read bandwidth: 2.31e+10 byte/s <- {ceilings}:6", "says"),
        ("copy bandwidth: 2.31e+10 byte/s <- {ceilings}:60", "no fact"),
        ("copy bandwidth: 2.31e+10 byte/s <- {elsewhere}:6", "no fact"),
    ],
)
def test_what_a_hypothesis_rests_on_is_looked_up_here(
    places: Settings, ceilings: Path, tmp_path: Path, fact: str, kind: str | None
) -> None:
    assert places.wiki_dir is not None
    page = places.wiki_dir / "my-card.yaml"
    page.write_text(PAGE)
    elsewhere = tmp_path / ceilings.name
    elsewhere.write_text(ceilings.read_text())  # whoever proposes may write such a file
    given = fact.format(ceilings=ceilings, page=f"{page}:{BANDWIDTH_LINE}", elsewhere=elsewhere)
    said = Hypothesis(statement="copy", rationale="", tactic="a", facts=(given,))
    found = citation_check(places)(said, None)
    assert [kind in problem for problem in found.problems if kind] == ([True] if kind else [])
    assert bool(found.problems) is (kind is not None)


def test_a_hypothesis_may_cite_the_campaigns_own_copies(
    campaign: Path, places: Settings, ceilings: Path
) -> None:
    known = replay(JsonlLedger(campaign / "ledger.jsonl").events())
    ceilings.unlink()
    facts = tuple(str(fact) for fact in known.started.facts.facts())
    said = Hypothesis(statement="copy", rationale="", tactic="a", facts=facts)
    assert citation_check(places)(said, known).problems == ()
    assert len(citation_check(places)(said, None).problems) == len(facts)
