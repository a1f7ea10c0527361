"""The lock by which tests that measure have the machine to themselves; see tests/conftest.py."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

PROGRAM = """\
import fcntl, pathlib, os, sys, tempfile
place = pathlib.Path(tempfile.gettempdir(), f"roofsmith-tests-{os.getuid()}")
with (place / "machine").open("w") as machine:
    fcntl.flock(machine, getattr(fcntl, sys.argv[1]) | fcntl.LOCK_NB)
"""

Alone = Callable[[], AbstractContextManager[None]]


def another_may_have_it(how: str) -> bool:
    """Whether a test in another process would get the machine now."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 or "BlockingIOError" in done.stderr, done.stderr
    return done.returncode == 0


def test_who_measures_is_alone_wherever_temporary_files_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: Alone
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with alone():
        assert not another_may_have_it("LOCK_SH")
        with alone():
            assert not another_may_have_it("LOCK_SH")
        assert not another_may_have_it("LOCK_SH")
    assert not another_may_have_it("LOCK_EX")
    assert not any(tmp_path.iterdir())


@pytest.mark.timing
def test_so_is_a_test_that_is_marked() -> None:
    assert not another_may_have_it("LOCK_SH")
