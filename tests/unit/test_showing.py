"""What a brief has no room for is shown from the ledger alone."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from campaign_builder import events_for, softmax_events
from typer.testing import CliRunner

from roofsmith.api.reading import read_campaign
from roofsmith.api.showing import PARTS, show_part
from roofsmith.cli.root import cli
from roofsmith.domain.campaign import Masked
from roofsmith.errors import UsageError
from roofsmith.store.campaign_dir import LEDGER, LINEAGE
from roofsmith.store.ledger import JsonlLedger


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign")
    ledger = JsonlLedger(folder / "ledger.jsonl")
    for event in softmax_events():
        ledger.append(event)
    return folder


def run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, [str(word) for word in words])
    return result.exit_code, result.stdout


@pytest.mark.parametrize("part", [name for name in PARTS if name not in ("round", "diff")])
def test_every_part_is_text_and_json(directory: Path, part: str) -> None:
    code, text = run("show", directory, part)
    assert code == 0
    shown = show_part(directory, [part])
    assert text.split() == shown.text.split()
    code, text = run("show", directory, part, "--json")
    assert (code, json.loads(text)["document"]) == (0, json.loads(json.dumps(shown.document)))


def test_a_round_may_be_one_word_or_two(directory: Path) -> None:
    assert run("show", directory, "round 4") == run("show", directory, "round", "4")


def test_a_round_has_its_hypothesis_and_figures(directory: Path) -> None:
    shown = show_part(directory, ["round", "4"])
    document: Any = shown.document
    assert document["hypothesis"]["tactic"] == "recipe:online-softmax"
    assert document["hypothesis"]["rationale"] in shown.text
    assert document["decision"]["rule"] in shown.text
    assert "samples" not in document["judgement"]
    assert show_part(directory, ["round", "1"]).document["outcome"]["kind"] == "passed"


def test_a_diff_is_what_the_round_changed(directory: Path) -> None:
    text = show_part(directory, ["diff", "3"]).text
    added = [line for line in text.split("\n") if line.startswith("+") and line[1:2] != "+"]
    assert any("omp parallel" in line for line in added)
    assert "-fopenmp" in text


def test_counters_of_a_round_stand_beside_those_before(directory: Path) -> None:
    document = show_part(directory, ["counters", "3"]).document
    assert document["profile"] != document["before"]
    assert show_part(directory, ["counters"]).document["profile"] is not None
    assert show_part(directory, ["counters", "5"]).document is None


def test_the_kernel_of_a_round_is_what_was_judged(directory: Path) -> None:
    held = show_part(directory, ["kernel"]).document["files"]
    assert show_part(directory, ["kernel", "7"]).document["files"] == held
    assert show_part(directory, ["kernel", "1"]).document["files"] != held


@pytest.mark.parametrize(
    "words", [["nothing"], ["round"], ["round", "99"], ["diff"], ["diff", "1"], ["round", "1", "2"]]
)
def test_what_is_not_there_is_said(directory: Path, words: list[str]) -> None:
    with pytest.raises(UsageError) as said:
        show_part(directory, words)
    assert said.value.hint


def test_a_folder_without_a_campaign_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        show_part(tmp_path, ["history"])


def test_a_masked_round_is_not_shown(tmp_path: Path) -> None:
    ledger = JsonlLedger(tmp_path / "ledger.jsonl")
    for event in softmax_events():
        ledger.append(event)
    ledger.append(Masked(rounds=(4,), by="command", reason="secret", at="2026-04-12 11:00:00"))
    rounds = [row["round"] for row in show_part(tmp_path, ["history"]).document]
    assert 4 not in rounds
    assert 3 in rounds
    with pytest.raises(UsageError):
        show_part(tmp_path, ["round", "4"])


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    command = ["git", *who, *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A campaign that kept a change, beside the repository of its kernel."""
    monkeypatch.chdir(tmp_path)
    ledger = JsonlLedger(tmp_path / "run" / LEDGER)
    (tmp_path / "run").mkdir()
    for event in events_for(["kept"], stop="out_of_ideas"):
        ledger.append(event)
    kernel = read_campaign(tmp_path / "run").started.target.kernel
    home = tmp_path / "home"
    home.mkdir()
    (home / kernel.path).write_text(kernel.text)
    (home / "notes.txt").write_text("mine\n")
    place = dict.fromkeys(("campaign", "repository", "checkout", "branch", "base", "prefix"), "")
    place["kernel"] = str(home / kernel.path)
    (tmp_path / "run" / LINEAGE).write_text(json.dumps(place))
    git(home, "init", "-q")
    git(home, "add", "-A")
    git(home, "commit", "-qm", "start")
    return tmp_path


def apply(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli, ["apply", "run", *words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


@needs_git
def test_the_kept_kernel_is_put_into_the_users_files(here: Path) -> None:
    campaign = read_campaign(here / "run")
    held = campaign.incumbent
    code, out, err = apply("--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["build"] == held.build.command_line("c")
    assert (here / "home" / held.kernel.path).read_text() == held.kernel.text
    assert git(here / "home", "status", "--porcelain").split() == ["M", held.kernel.path]
    code, out, _ = apply("--json")
    assert (code, json.loads(out)["written"]) == (0, [])


@needs_git
@pytest.mark.parametrize(("real", "follows"), [("home/real.c", True), ("elsewhere.c", False)])
def test_a_link_is_followed_within_the_folder(here: Path, real: str, *, follows: bool) -> None:
    """What lies elsewhere isn't written: git couldn't give it back."""
    kernel = here / "home" / read_campaign(here / "run").incumbent.kernel.path
    began = kernel.rename(here / real).read_text()
    kernel.symlink_to(here / real)
    git(here / "home", "add", "-A")
    git(here / "home", "commit", "-qm", "link")
    assert apply()[0] == 0
    kept = read_campaign(here / "run").incumbent.kernel.text
    assert kernel.read_text() == kept
    assert kernel.is_symlink() == follows
    assert (here / real).read_text() == (kept if follows else began)


@needs_git
def test_a_target_file_is_left_alone_and_what_it_lacks_is_said(here: Path) -> None:
    """Flags that a round chose: without them, the next campaign begins with another kernel."""
    place = (here / "run" / LINEAGE).read_text()
    shutil.rmtree(here / "run")
    (here / "run").mkdir()
    ledger = JsonlLedger(here / "run" / LEDGER)
    for event in events_for(["sweep"], stop="out_of_ideas"):
        ledger.append(event)
    (here / "run" / LINEAGE).write_text(place)
    campaign = read_campaign(here / "run")
    build = campaign.incumbent.build
    assert build.flags != campaign.started.target.baseline.build.flags
    code, out, err = apply("--json")
    assert code == 0, err
    said = yaml.safe_load(json.loads(out)["target_build"])["build"]
    assert tuple(said["flags"]) == build.flags
    assert "build:" in apply()[1]


@needs_git
@pytest.mark.parametrize("dirty", ["kernel", "another"])
def test_what_nobody_committed_is_left_alone(here: Path, dirty: str) -> None:
    home = here / "home"
    path = next(home.glob("*.c")) if dirty == "kernel" else home / "notes.txt"
    path.write_text(path.read_text() + "/* mine */\n")
    before = {file: file.read_bytes() for file in home.iterdir() if file.is_file()}
    code, _, err = apply()
    assert code == 2
    assert path.name in err
    assert {file: file.read_bytes() for file in home.iterdir() if file.is_file()} == before


@needs_git
def test_where_the_files_are_may_be_said(here: Path) -> None:
    (here / "run" / LINEAGE).unlink()
    code, _, err = apply()
    assert (code, "--to DIR" in err) == (2, True)
    assert apply("--to", "home")[0] == 0


@needs_git
def test_a_kernel_may_be_put_where_none_is(here: Path) -> None:
    (here / "new").mkdir()
    assert apply("--to", "new")[0] == 0
    (file,) = (here / "new").iterdir()
    assert file.read_text()
    assert apply("--to", "missing")[0] == 2
