"""A change that was told from the worktree survives whatever ends the command."""

from __future__ import annotations

import shlex
import shutil
import signal
import time
from pathlib import Path

import pytest
from repository_bench import without_profilers
from test_app import SLOW, Once, begin, copied_run, furnish, roofsmith, started

from kinds import another
from roofsmith import api
from roofsmith.api.telling import keep_told
from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile
from roofsmith.store.told import drop, keep, kept
from roofsmith.testing.engine import fake_idea, fake_target

IDEA = "sum up half as often"
EDITED = SLOW.replace("k < 16", "k < 8").replace("0.125f", "0.25f")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


@pytest.fixture
def edited(once: Once, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kernel in a campaign's worktree, edited there and nowhere else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFSMITH_CACHE", str(cache))
    without_profilers(monkeypatch, tmp_path)
    furnish(tmp_path)
    copied_run(once("unchanged", lambda there: begin(there, cache)), tmp_path)
    (kernel,) = (tmp_path / "run").glob("*/scale.c")
    kernel.write_text(EDITED)
    return kernel


def text_of(path: Path) -> str | None:
    """None while git puts another file in its place."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


@pytest.mark.rule("told-change-kept")
@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize("number", [signal.SIGKILL, another(signal.SIGINT)])
def test_what_is_killed_can_be_told_again(edited: Path, number: signal.Signals) -> None:
    ledger = Path("run/ledger.jsonl")
    before = ledger.read_bytes()
    told = ("tell", "run", "--kernel", str(edited), "--hypothesis", IDEA, "--predict", "2")
    with started(*told) as process:
        while text_of(edited) != SLOW:  # until the incumbent is put back
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(number)
        printed = process.communicate()[1]
    assert edited.read_text() == SLOW
    assert ledger.read_bytes().startswith(before)
    assert '"kind":"round"' not in ledger.read_text()
    if number is signal.SIGKILL:
        code, _, printed = roofsmith("ask", "run")
        assert code == 0, printed
    (again,) = [line.strip() for line in printed.splitlines() if line.startswith("  roofsmith")]
    assert "in no record" in printed
    if number is signal.SIGINT:
        return
    code, out, err = roofsmith(*shlex.split(again)[1:], "--json")
    assert code in (0, 1), err
    assert "in no record" not in err
    assert f'"{IDEA}"' in ledger.read_text()
    assert EDITED in (Path("run/rounds/round-2/kernel_snapshot") / "scale.c").read_text()
    assert not Path("run/told").exists()
    assert roofsmith("verify", "run")[0] == 0, out


@needs_gcc
def test_nothing_is_kept_of_what_lies_elsewhere_or_was_recorded(edited: Path) -> None:
    edited.write_text(SLOW)
    Path("mine.c").write_text("int broken(\n")
    code, _, err = roofsmith("tell", "run", "--kernel", "mine.c", "--hypothesis", "break it")
    assert (code, "in no record" in err) == (1, False), err
    assert not Path("run/told").exists()


# -- what is kept ---------------------------------------------------------------------------


def sources(**texts: str) -> tuple[SourceFile, ...]:
    return tuple(SourceFile(path=f"{name}.c", text=text) for name, text in texts.items())


def test_a_change_in_the_directory_is_kept_with_all_that_was_said(tmp_path: Path) -> None:
    target = fake_target()
    made = fake_idea(target, "made there").candidate
    kernel = tmp_path / "worktree" / "kernel.c"
    change = api.SubmittedChange(
        kernel, "it's quicker", "-O3 -g", "a class", repair=True, tokens=7, category="tiling",
        predicted_speedup=1.3, expected_counter="ipc", expected_delta=1.5,
    )  # fmt: skip
    keep_told(change, tmp_path, made, target.baseline, target)
    (told,) = kept(tmp_path)
    assert (told.folder / "kernel.c").read_text() == made.kernel.text
    assert shlex.split(told.command) == [
        "roofsmith", "tell", str(tmp_path), f"--kernel={told.folder / 'kernel.c'}",
        "--hypothesis=it's quicker", "--flags=-O3 -g", "--class=a class", "--tokens=7",
        "--category=tiling", "--predict=1.3", "--counter=ipc", "--counter-ratio=1.5", "--repair",
    ]  # fmt: skip


@pytest.mark.parametrize("place", ["elsewhere/kernel.c", "run/../kernel.c"])
def test_a_change_that_lies_elsewhere_is_its_owners(tmp_path: Path, place: str) -> None:
    target = fake_target()
    change = api.SubmittedChange(tmp_path / place, "made elsewhere")
    keep_told(change, tmp_path / "run", fake_idea(target, "x").candidate, target.baseline, target)
    assert list(kept(tmp_path / "run")) == []


def test_of_several_files_the_changed_ones_are_kept(tmp_path: Path) -> None:
    before = Candidate(language="c", sources=sources(a="1", b="2"), build=BuildSpec())
    after = before.model_copy(update={"sources": sources(a="1", b="3")})
    keep_told(
        api.SubmittedChange(tmp_path / "worktree", "b"), tmp_path, after, before, fake_target()
    )
    (told,) = kept(tmp_path)
    assert [path.name for path in told.folder.iterdir()] == ["b.c"]


def test_what_was_not_written_whole_is_still_where_it_was_made(tmp_path: Path) -> None:
    keep(tmp_path, "aa", sources(a="1"), "roofsmith tell aa")
    keep(tmp_path, "bb", sources(a="2"), "roofsmith tell bb")
    (tmp_path / "told" / "aa" / "command").unlink()
    assert [told.command for told in kept(tmp_path)] == ["roofsmith tell bb"]
    drop(tmp_path, "bb")
    assert (tmp_path / "told" / "aa").is_dir()
    drop(tmp_path, "aa")
    assert not (tmp_path / "told").exists()
