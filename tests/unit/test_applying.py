"""A campaign's kernel goes home: the files that it may edit, over what it began with."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from campaign_builder import events_for
from typer.testing import CliRunner

from roofsmith.api.reading import read_campaign
from roofsmith.cli.root import cli
from roofsmith.store.campaign_dir import LEDGER, LINEAGE
from roofsmith.store.ledger import JsonlLedger

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
