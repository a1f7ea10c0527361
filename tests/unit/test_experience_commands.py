"""`roofsmith experience` and `roofsmith tips`, and the same from Python."""

from __future__ import annotations

import errno
import fcntl
import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from campaign_builder import softmax_campaign, softmax_events
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from roofsmith import api, experience
from roofsmith.analysis.experiments import experiments
from roofsmith.api.remembering import remembering
from roofsmith.cli.root import cli
from roofsmith.domain.experiment import Experiment, result_of
from roofsmith.domain.proposal import Hypothesis
from roofsmith.experience.database import Database, Query
from roofsmith.experience.exchange import lines_of, parsed
from roofsmith.experience.rates import success_rates
from roofsmith.experience.schema import row_of
from roofsmith.report.campaign_files import render_campaign
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.ledger import JsonlLedger
from roofsmith.testing.engine import fake_target
from roofsmith.testing.machine import fake_device


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose database the commands use."""
    monkeypatch.setenv("ROOFSMITH_EXPERIENCE", str(tmp_path / "experience.db"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> tuple[int, Any]:
    found = CliRunner().invoke(cli, [*words, "--json"])
    return found.exit_code, json.loads(found.stdout)


TOLD = (
    "experience", "add", "--kernel", "softmax", "--backend", "cuda", "--chip", "sm_90",
    "--dims", "N=4096,D=128", "--bottleneck", "memory-bound", "--optimization", "float4 loads",
    "--hypothesis", "fewer instructions", "--before", "dram=0.4", "--after", "dram=0.8",
)  # fmt: skip


def test_what_is_told_is_found_again() -> None:
    code, told = run(*TOLD, "--speedup", "1.31", "--dtype", "float16", "--base-commit", "abcdef")
    assert code == 0
    assert (told["outcome"], told["arch"], told["bottleneck"]["kind"]) == (
        "success", "sm_90", "memory",
    )  # fmt: skip
    assert told["dims"] == {"N=4096,D=128": {"N": 4096, "D": 128}}
    matches = ("--op", "SOFT", "--dtype", "float", "--base-commit", "abc", "--status", "reported")
    assert run("experience", "list", *matches)[1]["experiments"] == [told]
    assert run("experience", "list", "--chip", "sm_80")[1]["experiments"] == []
    assert run("experience", "search", "float4")[1]["experiments"] == [told]
    assert run("experience", "top", "-n", "20")[1]["experiments"] == [told]
    assert run("experience", "show", told["id"][:6])[1] == told
    assert run("experience", "stats")[1]["rates"][0]["success"] == 1
    changed = run(
        "experience", "update", told["id"], "--score", "1.01", "--set", "stall=barrier",
        "--reason", "timed anew",
    )[1]  # fmt: skip
    assert (changed["outcome"], changed["stall"]) == ("failure", "barrier")
    assert {one["reason"] for one in changed["revisions"]} == {"timed anew"}


def test_what_worked_and_what_failed_is_recommended_with_its_evidence() -> None:
    asked = ("experience", "recommend", "--kernel", "softmax", "--backend", "cuda")
    assert run(*asked)[1]["worked"] == []
    told = run(*TOLD, "--speedup", "1.31")[1]
    run(*TOLD, "--optimization", "pad rows", "--speedup", "1.2", "--parent", told["id"][:6])
    run(*TOLD, "--optimization", "unroll by 8", "--speedup", "0.9")
    like = ("--chip", "sm_90", "--bottleneck", "memory", "--dtype", "float32", "--shape", "N=64")
    code, found = run(*asked, *like)
    assert code == 0
    assert found["worked"][0]["precedents"][0]["experiment"] == told["id"]
    assert [one["change"] for one in found["failed"]] == ["unroll by 8"]
    assert run(*asked[:-1], "hip")[1]["worked"], "a neighbour's is told, and weighs less"
    assert run(*asked[:-1], "c")[1]["worked"] == []
    shown = CliRunner().invoke(cli, [*asked, "-n", "1"]).stdout
    assert shown.count("Seen: softmax on sm_90: ") == 2, "one of each"
    assert "()" not in shown


@pytest.mark.parametrize(
    "words",
    [
        ("add",),
        ("recommend", "--bottleneck", "bad luck"),
        ("recommend", "--shape", "wide"),
        TOLD[1:],
        (*TOLD[1:], "--outcome", "great"),
        (*TOLD[1:], "--speedup", "1.2", "--status", "blah"),
        (*TOLD[1:], "--speedup", "1.2", "--parent", "nope"),
        ("list", "--status", "nonsense"),
        ("list", "--outcome", "blah"),
        ("recommend", "--backend", "nonsense"),
        ("search", ""),
        (*TOLD[1:], "--dims", "wide"),
        (*TOLD[1:], "--before", "dram"),
        ("show", "none"),
        ("update", "none", "--score", "2", "--reason", "x"),
        ("import", "none"),
        ("import", "."),
        ("import", "some.json"),
        ("import", "nonsense://x"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...]) -> None:
    Path("some.json").write_text('{"case": 1, "family": "softmax"}')
    code, said = run("experience", *words)
    assert code == 2
    assert "error" in said


def test_duplicates_are_shown_and_folded_when_asked() -> None:
    one, same = (run(*TOLD, "--score", score)[1] for score in ("1.3", "1.31"))
    run(*TOLD, "--score", "1.3", "--chip", "sm_80")
    groups = [{"stays": same["id"], "folded": [one["id"]]}]
    assert run("experience", "merge")[1] == {"groups": groups, "done": False}
    assert len(run("experience", "list")[1]["experiments"]) == 3
    assert run("experience", "merge", "--yes")[1] == {"groups": groups, "done": True}
    assert len(run("experience", "list")[1]["experiments"]) == 2
    assert run("experience", "show", one["id"])[1]["merged_into"] == same["id"]
    assert run("experience", "merge")[1]["groups"] == []


def test_rounds_go_to_files_and_other_databases_and_come_back(here: Path) -> None:
    rows = experiments(softmax_campaign())
    database = Database(f"sqlite:///{here / 'experience.db'}")
    database.add(rows)
    assert CliRunner().invoke(cli, ["experience", "export", "all.jsonl"]).exit_code == 0
    assert parsed(Path("all.jsonl"), Path("all.jsonl").read_text()).experiments == rows
    other = f"sqlite:///{here / 'other.db'}"
    assert CliRunner().invoke(cli, ["experience", "export", other]).exit_code == 0
    assert Database(other).list() == rows
    for place in ("all.jsonl", "other.db", other):
        found = run("experience", "import", place)[1]
        assert (found["found"], found["new"]) == (len(rows), 0)


def test_the_field_s_json_is_read(here: Path) -> None:
    one = {
        "id": 7, "pid": 3, "score": 1.07, "operator_sig": "reshape_and_cache(fp16)",
        "change_summary": "Unroll 4 " * 20, "is_buggy": False, "error_message": None,
        "env": {"gpu": "MI300X"}, "latency_us": 4.5,
    }  # fmt: skip
    other = {"kernel": "gemm", "backend": "triton", "chip": "gfx942", "speedup": 0.9}
    for text in (
        json.dumps([one, other]),
        json.dumps({"version": 1, "experiments": [one, other]}),
        json.dumps({"7": one, "8": other}),
        "\n".join(map(json.dumps, (one, other))),
    ):
        first, second = parsed(Path("x.json"), text).experiments
        assert (first.id, first.pid, len(first.change_summary)) == ("7", "3", 80)
        assert "latency_us: 4.5" in first.notes
        assert (second.operator_sig, second.arch, second.outcome) == ("gemm", "gfx942", "failure")
    found = parsed(Path("x.jsonl"), '{"score": -1}\nnot json\n[1]\n{"score": 1.5}\n')
    assert (len(found.experiments), len(found.complaints)) == (1, 3)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
fields = st.sampled_from([*Experiment.model_fields, "kernel", "chip", "optimization", "speedup"])


@given(st.dictionaries(fields, anything, max_size=6))
def test_any_record_is_read_or_complained_about(record: dict[str, Any]) -> None:
    found = parsed(Path("x.json"), json.dumps([record]))
    assert len(found.experiments) + len(found.complaints) == 1
    for one in found.experiments:
        assert Experiment.model_validate_json(one.model_dump_json(exclude_unset=True)) == one
        assert row_of(one)["id"] == one.id


def test_pages_tell_lessons_and_take_those_that_people_add(here: Path) -> None:
    run(*TOLD, "--score", "1.3", "--notes", "a | b <script>")
    run("tips", "add", "Pad rows by one", "--op", "softmax", "--backend", "cuda", "--device",
        "sm_90", "--author", "Ada")  # fmt: skip
    assert run("experience", "sync", "out")[0] == 0
    page = here / "out/sm_90/softmax/cuda/tips.md"
    assert "float4 loads" in (here / "out/experiences.md").read_text()
    assert "Pad rows by one" in page.read_text()
    notes = "No lesson,\n  a note.\n\n## Notes\n\nLonger\n\n- than that\n"
    with page.open("a") as file:
        file.write("\n## Bob, who knows\n\n- takeaway: short rows:\n  one warp each")
        file.write(f"\n{notes}")
    for _ in range(2):
        said = run("experience", "sync", "out")[1]["complaints"]
        assert len(said) == 2
        assert page.read_text().endswith(f"\n\n{notes}")
        assert page.read_text().count("short rows: one warp each") == 1
        assert page.read_text().count("## ") == 4
    found = run("tips", "list", "--op", "softmax", "--device", "sm_90")[1]["tips"]
    assert len(found) == 3
    assert run("tips", "list", "--op", "gemm")[1]["tips"] == []
    assert run("tips", "show", found[0]["id"])[1] == found[0]
    assert len(run("experience", "list")[1]["experiments"]) == 1


def test_a_campaign_reads_what_somebody_told_of_its_kernel_and_device() -> None:
    target, device = fake_target(), fake_device()
    for name in (target.name, "another"):
        words = ("Pad rows", "--op", name, "--backend", target.language, "--device", device.name)
        assert run("tips", "add", *words)[0] == 0
    kept = remembering(api.settings())
    assert kept is not None
    assert [tip.takeaway for tip in kept.tips(target, device)] == ["Pad rows"]
    assert kept.tips(target, device.model_copy(update={"name": "x", "isa": ("avx2",)})) == ()


def test_lessons_of_neighbours_are_marked(here: Path) -> None:
    told = [Experiment(id=name, device=name, arch=arch, score=1.5, hypothesis=Hypothesis(
        statement=f"change {name}", rationale="", tactic="external",
    )) for name, arch in (("H100", "sm_90"), ("H200", "sm_90"), ("A100", "sm_80"))]  # fmt: skip
    Database(f"sqlite:///{here / 'experience.db'}").add(told)
    found = run("tips", "list", "--device", "h100")[1]["tips"]
    assert [(tip["id"], "neighbour" in tip["applicability"]) for tip in found] == [
        ("H100", False), ("H200", True),
    ]  # fmt: skip
    assert len(run("tips", "list")[1]["tips"]) == 3


def test_the_field_s_examples_work() -> None:
    from roofsmith.experience import KernelExperiment, create_experiment, list_experiments

    good = create_experiment(
        KernelExperiment(
            operator_sig="reshape_and_cache", score=1.0734, change_summary="Unroll 4 - 7% faster"
        )
    )
    bad = create_experiment(
        operator_sig="reshape_and_cache", is_buggy=True, change_summary="Unroll 8 - crash",
        detailed_description="unroll 8 spills", pid=good.id,
    )  # fmt: skip
    found = list_experiments()
    cached = [e for e in found if "cache" in e.operator_sig.lower()]
    assert sorted(cached, key=lambda x: x.score, reverse=True) == [good, bad]
    assert [e for e in found if "unroll 8" in e.detailed_description.lower()] == [bad]
    assert [e for e in found if e.score < 0.98 or e.is_buggy] == [bad]
    changed = experience.update_experiment(bad.id, raw_result="Iteration 2", score=0.5)
    assert experience.get_experiment(bad.id) == changed
    assert experience.get_experiment("none") is None
    assert experience.top_experiments(max_results=20) == [good]


@pytest.mark.parametrize(
    ("score", "interval", "buggy", "result"),
    [
        (1.06, None, False, "success"),
        (1.06, (1.03, 1.09), False, "success"),
        (1.2, (0.9, 1.5), False, "neutral"),
        (1.03, (1.02, 1.04), False, "neutral"),
        (1.0, (0.99, 1.01), False, "failure"),
        (2.0, (1.9, 2.1), True, "failure"),
    ],
)
def test_outcomes(
    score: float, interval: tuple[float, float] | None, buggy: bool, result: str
) -> None:
    assert result_of(score, interval, buggy) == result
    assert Experiment(score=score, interval=interval, is_buggy=buggy).outcome == result


def test_a_hostile_note_stays_short_and_harms_nothing(here: Path) -> None:
    said = "\x1b[2J'; DROP TABLE experiments; -- <script> \u202e " * 20_000
    one = {"kernel": said, "backend": "c", "speedup": 1.5, "optimization": said, "summary": said}
    (here / "notes.jsonl").write_text(json.dumps(one))
    (here / "tips.md").write_text(f"## from x\n- takeaway: {said}\n- context: {said}\n")
    for place in ("notes.jsonl", "tips.md"):
        assert run("experience", "import", place) == (0, {"found": 1, "new": 1, "complaints": []})
    (told,) = run("experience", "list")[1]["experiments"]
    assert len(told["hypothesis"]["statement"]) <= 2000
    tips = run("tips", "list")[1]["tips"]
    assert len(tips) == 2
    assert all(len(text) < 3000 for tip in tips for text in tip.values())


def test_nothing_is_counted_that_must_not_be_told() -> None:
    rows = [
        Experiment(score=1.5, backend="c"),
        Experiment(score=9, backend="c", outcome="failure"),
        Experiment(score=9, backend="c", masked=True),
        Experiment(score=9, backend="c", bucket="W2"),
        Experiment(backend="c", status="baseline"),
        Experiment(backend="c", status="refused"),
    ]
    assert {(one.attempts, one.success, one.best) for one in success_rates(rows)} == {(2, 1, 1.5)}
    assert "".join(lines_of(rows)).count("\n") == len(rows)


@pytest.mark.parametrize(
    ("name", "family"),
    [("my_layernorm", "norm"), ("fast-transpose", "transpose"), ("nbody", "unknown")],
)
def test_a_kernel_without_a_family_is_filed_under_what_names_suggest(
    name: str, family: str
) -> None:
    campaign = softmax_campaign()
    started = campaign.started.model_copy(update={"target": fake_target(name=name)})
    rows = experiments(campaign.model_copy(update={"started": started}))
    assert {one.operator for one in rows} == {family}


def test_a_campaign_is_read_again_from_its_ledger_and_its_masks_follow(here: Path) -> None:
    with CampaignDirectory.create(here / "run") as files:
        ledger = JsonlLedger(files.ledger_path)
        for event in softmax_events():
            ledger.append(event)
        files.write(render_campaign(softmax_campaign()).files)
    seals = [record.hash for record in ledger.records()]
    count = len(softmax_campaign().rounds) + 1
    assert run("experience", "import", "run")[1]["new"] == count
    assert run("experience", "import", ".")[1]["new"] == 0
    (here / "packed").mkdir()
    packed = gzip.compress(files.ledger_path.read_bytes())
    (here / "packed/any.jsonl.gz").write_bytes(packed)
    for place in ("packed", "packed/any.jsonl.gz"):
        assert run("experience", "import", place)[1] == {"found": count, "new": 0, "complaints": []}
    (here / "packed/any.jsonl.gz").write_bytes(packed[:-20])
    assert run("experience", "import", "packed")[0] == 2
    (here / "packed/any.jsonl.gz").unlink()
    (here / "broken").mkdir()
    (here / "broken/ledger.jsonl").write_text("{}\n")
    found = run("experience", "import", ".")[1]
    assert (found["found"], len(found["complaints"])) == (count, 1)
    found = run("experience", "list")[1]["experiments"]
    assert len(found) == count
    assert len({row["ledger"] for row in found} & {*seals}) == count
    for command, masked in (("mask", True), ("unmask", False)):
        assert run("memory", command, "run", "v1")[0] == 0
        row = run("experience", "show", found[1]["id"])[1]
        assert row["masked"] == masked


def test_an_export_destroys_nothing_that_is_there(here: Path) -> None:
    told = run(*TOLD, "--score", "1.3")[1]
    rows = Database(f"sqlite:///{here / 'experience.db'}").list()
    other = here / "theirs"
    Database(f"sqlite:///{other}").add([Experiment(id="their own", score=2)])
    (here / "notes.txt").write_text("mine\n")
    (here / "list.json").write_text('[{"speedup": 1.2}]')
    (here / "link").symlink_to("experience.db")
    (here / "empty").mkdir()
    before = {path: path.read_bytes() for path in here.iterdir() if path.is_file()}
    for place in ("experience.db", "link", "sqlite:///experience.db", "notes.txt", "list.json",
                  ".", "empty/", "/dev/null"):  # fmt: skip
        assert CliRunner().invoke(cli, ["experience", "export", place]).exit_code == 2, place
    assert before.items() <= {path: path.read_bytes() for path in before}.items()
    for place in ("theirs", "new.sqlite3", "new.jsonl", "new.jsonl"):
        assert CliRunner().invoke(cli, ["experience", "export", place]).exit_code == 0, place
    assert {one.id for one in Database(f"sqlite:///{other}").list()} == {"their own", told["id"]}
    assert Database(f"sqlite:///{here / 'new.sqlite3'}").list() == rows


def test_foreign_records_are_added_once(here: Path) -> None:
    (here / "theirs.json").write_text('[{"speedup": 1.2, "foo": "bar"}, {"speedup": 1.3}]')
    assert [run("experience", "import", "theirs.json")[1]["new"] for _ in range(2)] == [2, 0]


@pytest.mark.parametrize(
    ("change", "takes"),
    [
        ("score=fast", "number"),
        ("round=1.5", "whole number"),
        ("is_buggy=maybe", "true or false"),
        ("outcome=great", "success"),
        ("notes=5", "list"),
        ("hypothesis=luck", "object"),
        (f"change_summary={'x' * 81}", "80"),
    ],
)
def test_a_correction_that_cannot_be_says_what_its_field_takes(change: str, takes: str) -> None:
    told = run(*TOLD, "--score", "1.3")[1]
    said = run("experience", "update", told["id"], "--reason", "x", "--set", change)
    assert said[0] == 2
    message = said[1]["error"]["message"]
    assert change.partition("=")[0] in message
    assert takes in message
    fixed = ("--set", "bottleneck=compute", "--set", "dims=N=4", "--set", "stall=5")
    now = run("experience", "update", told["id"], "--reason", "x", *fixed)[1]
    assert (now["bottleneck"]["kind"], now["dims"], now["stall"]) == (
        "compute", {"N=4": {"N": 4}}, "5",
    )  # fmt: skip


def test_what_a_locked_database_cannot_take_waits_and_lands(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roofsmith.experience.database._LOCKED_S", 0)
    tip = ("tips", "add", "--op", "softmax", "--backend", "c", "--device", "test")
    first = run(*TOLD, "--speedup", "1.31")[1]
    run(*tip, "first")
    holder = sqlite3.connect(here / "experience.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    for number in range(5):
        assert run(*tip, f"tip number {number}")[0] == 0
    assert run(*TOLD, "--speedup", "1.11", "--chip", "sm_80")[0] == 0
    changed = ("--score", "1.7", "--reason", "measured again")
    assert run("experience", "update", first["id"], *changed)[1]["score"] == 1.7
    [held] = run("experience", "list")[1]["experiments"]  # readers answer meanwhile
    assert held["score"] == 1.31
    holder.execute("COMMIT")
    holder.close()
    told = [one["takeaway"] for one in run("tips", "list", "--op", "softmax")[1]["tips"]]
    assert {"first", *(f"tip number {n}" for n in range(5))} <= set(told)
    landed = run("experience", "list")[1]["experiments"]
    assert sorted(one["score"] for one in landed) == [1.11, 1.7]
    assert not (here / "experience.db.spool.jsonl").exists()


def test_what_waits_on_a_file_system_without_locks_stays_there(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("roofsmith.experience.database._LOCKED_S", 0)
    tip = ("tips", "add", "--op", "softmax", "--backend", "c", "--device", "test")
    run(*tip, "first")
    holder = sqlite3.connect(here / "experience.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    spool = here / "experience.db.spool.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        assert run(*tip, "second")[0] == 0
        assert run(*tip, "third")[0] == 0
        holder.execute("COMMIT")
        holder.close()
        assert run(*tip, "fourth")[0] == 0
        assert spool.exists(), "what others add meanwhile isn't lost"
    told = [one["takeaway"] for one in run("tips", "list", "--op", "softmax")[1]["tips"]]
    assert {"first", "second", "third", "fourth"} <= set(told)
    assert not spool.exists()


def test_a_tip_is_added_once() -> None:
    words = ("tips", "add", "Pad rows", "--op", "softmax", "--backend", "c", "--device", "x")
    told = run(*words)[1]
    code, said = run(*words)
    assert (code, told["id"] in said["error"]["message"]) == (2, True)
    assert told["id"] in CliRunner().invoke(cli, ["tips", "show", told["id"]]).stdout
    assert "tips list" in run("tips", "show", "nope")[1]["error"]["hint"]


@pytest.mark.parametrize(
    ("place", "text", "found"),
    [
        ("newcomer/my kernels/tmp", "", ("", "", "")),
        ("newcomer/my kernels/tmp", "- context: softmax in cuda on A10\n",
         ("softmax", "cuda", "A10")),
        ("a/b/notes", "- context: norm in hip on Instinct MI300X; bound by x\n",
         ("norm", "hip", "Instinct MI300X")),
        ("sm_90/my op/triton", "- context: norm in hip on x\n", ("my op", "triton", "sm_90")),
    ],
)  # fmt: skip
def test_only_folders_of_that_kind_say_what_a_tip_is_for(
    here: Path, place: str, text: str, found: tuple[str, str, str]
) -> None:
    page = here / place / "tips.md"
    page.parent.mkdir(parents=True)
    page.write_text(f"## from Ada\n\n- takeaway: Pad rows\n{text}")
    assert run("experience", "import", place)[1]["new"] == 1
    (row,) = Database(f"sqlite:///{here / 'experience.db'}").list(Query(tips=True))
    assert (row.operator_sig, row.backend, row.device) == found
