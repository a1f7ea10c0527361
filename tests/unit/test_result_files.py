"""Which file of results a run wrote, and what becomes of those that were there before."""

from __future__ import annotations

import ctypes
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from roofsmith import result_files
from roofsmith.result_files import NoResultError, ResultFiles
from roofsmith.wording import some_of


def test_results_of_earlier_runs_are_removed(tmp_path: Path) -> None:
    old = tmp_path / "old.csv"
    old.write_text("old")
    files = ResultFiles(tmp_path, "*.csv", "results")
    assert not old.exists()
    (tmp_path / "new.csv").write_text("\ufeffnew")
    assert files.text() == "new"


def test_what_lies_behind_a_link_is_the_users_and_is_told_by_its_time(tmp_path: Path) -> None:
    theirs, here = tmp_path / "theirs", tmp_path / "here"
    theirs.mkdir()
    here.mkdir()
    (theirs / "old.csv").write_text("old")
    (here / "out").symlink_to(theirs)
    files = ResultFiles(here, "out/*.csv", "results")
    assert (theirs / "old.csv").read_text() == "old"
    with pytest.raises(NoResultError, match=r"wrote no file out/\*\.csv"):
        files.text()
    (theirs / "new.csv").write_text("new")
    assert files.text() == "new"


def test_none_names_what_lies_elsewhere(tmp_path: Path) -> None:
    files = ResultFiles(tmp_path, "out/*.csv", "results")
    with pytest.raises(NoResultError, match="there is no CSV at all"):
        files.text()
    (tmp_path / "elsewhere.csv").touch()
    with pytest.raises(NoResultError, match=r"there are elsewhere\.csv"):
        files.text()


def test_two_that_differ_are_refused_and_two_that_agree_are_one(tmp_path: Path) -> None:
    files = ResultFiles(tmp_path, "*.csv", "profile.results")
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("same")
    assert files.text() == "same"
    (tmp_path / "b.csv").write_text("other")
    with pytest.raises(
        NoResultError, match=r"2 different files .*a\.csv, b\.csv; let `profile\.results`"
    ):
        files.text()


def test_what_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_files, "MAX_BYTES", 2**20)
    files = ResultFiles(tmp_path, "*.csv", "results")
    (tmp_path / "a.csv").write_bytes(b"1" * (2**20 + 1))
    with pytest.raises(NoResultError, match=r"a\.csv has more than 1 MiB"):
        files.text()


@pytest.mark.parametrize(
    ("count", "said"), [(0, ""), (1, "0"), (3, "0, 1, 2"), (5, "0, 1, 2 and 2 more")]
)
def test_some_names_stand_for_many(count: int, said: str) -> None:
    assert some_of([str(number) for number in range(count)], 3) == said


FAULTS = """
import resource
import numpy as np
from roofsmith.freed_memory import keep_freed_memory

def faults():
    [np.ones(2**20, np.uint8) for _ in range(8)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        [np.ones(2**20, np.uint8) for _ in range(8)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

without = faults()
keep_freed_memory()
print(without, faults())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="no glibc")
def test_arrays_that_come_and_go_are_mapped_once() -> None:
    said = subprocess.run(
        [sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True
    )
    without, kept = map(int, said.stdout.split())
    pages = 2**20 // resource.getpagesize()
    assert without > 10 * pages
    assert kept < pages
