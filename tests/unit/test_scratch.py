"""Scratch folders: named after their owner, and cleared away once he is dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from roofsmith.errors import BadReferenceError, StorageError
from roofsmith.scratch import (
    filed_log,
    filing_logs,
    remove_stale,
    scratch_directory,
    scratch_prefix,
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_by_the_dead(here: Path) -> Path:
    """A folder whose owner was killed before he could remove it."""
    code = "from roofsmith.scratch import *; scratch_directory('worker'); os.kill(os.getpid(), 9)"
    environment = {**os.environ, "TMPDIR": str(here)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert run.returncode == -signal.SIGKILL
    names = list(here.glob("roofsmith-worker-*"))
    assert len(names) == 1
    (names[0] / "output.txt").write_text("half a line")
    return names[0]


def test_a_dead_owners_folder_is_removed(here: Path) -> None:
    stale = left_by_the_dead(here)
    assert remove_stale() == (stale,)
    assert not stale.exists()
    assert remove_stale() == ()


def test_a_living_owners_folder_stays(here: Path) -> None:
    mine = scratch_directory("reference")
    assert mine.is_dir()
    assert remove_stale() == ()
    assert mine.is_dir()


def test_a_folder_of_another_container_stays(here: Path) -> None:
    stale = left_by_the_dead(here)
    space = scratch_prefix("worker").split("-")[2].split(".")[0]
    foreign = stale.rename(here / stale.name.replace(space, "17"))
    assert remove_stale() == ()
    assert foreign.is_dir()


def test_only_folders_of_its_own_name_are_touched(here: Path) -> None:
    stale = left_by_the_dead(here)
    precious = here / "precious"
    precious.mkdir()
    link = here / f"{stale.name}x"
    link.symlink_to(precious)
    file = here / f"{stale.name}y"
    file.write_text("a log")
    for name in ("roofsmith-notes", "roofsmith-worker-abc", f"other-{stale.name}"):
        (here / name).mkdir()
    assert remove_stale() == (stale,)
    assert sorted(p.name for p in here.iterdir()) == sorted(
        ["precious", link.name, file.name, "roofsmith-notes", "roofsmith-worker-abc",
         f"other-{stale.name}"]
    )  # fmt: skip


def test_logs_of_what_failed_stay_for_a_week(here: Path) -> None:
    week_s = 7 * 24 * 3600
    kept = ("roofsmith-worker-new.log", "roofsmith-notes-old.log", "roofsmith-worker-old.txt")
    old = {f"roofsmith-{who}-old.log" for who in ("worker", "reference")}
    link = here / "roofsmith-worker-link.log"
    for name in (*kept, *old):
        (here / name).write_text("what it printed")
        ages_s = 0 if name.endswith("new.log") else week_s + 60
        os.utime(here / name, (time.time() - ages_s,) * 2)
    link.symlink_to(here / "roofsmith-notes-old.log")
    os.utime(link, (0, 0), follow_symlinks=False)
    assert {path.name for path in remove_stale()} == old
    assert {path.name for path in here.iterdir()} == {*kept, link.name}


def test_a_folder_that_cannot_be_made_says_what_to_do(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(here / "gone"))
    with pytest.raises(StorageError, match="temporary folder") as error:
        scratch_directory("worker")
    assert "TMPDIR" in (error.value.hint or "")


def test_a_log_of_a_campaign_leaves_the_temporary_folder(here: Path) -> None:
    kept = []
    for name in ("a", "b"):
        (here / f"roofsmith-worker-{name}.log").write_text("the same words")
        log = filed_log(here / f"roofsmith-worker-{name}.log", here / "logs")
        kept.append(log)
    assert len(set(kept)) == 1
    assert kept[0].read_text() == "the same words"
    assert [path.name for path in here.iterdir()] == ["logs"]
    builds = here / "build.log"
    assert filed_log(builds, here / "logs") == builds


def test_an_error_names_a_log_that_stays(here: Path) -> None:
    trace = here / "roofsmith-reference-a.log"
    trace.write_text("boom")
    with pytest.raises(BadReferenceError) as raised, filing_logs(here / "logs"):
        raise BadReferenceError("the reference raises", log=trace)
    assert raised.value.log is not None
    assert raised.value.log.read_text() == "boom"
    assert [path.name for path in here.iterdir()] == ["logs"]
