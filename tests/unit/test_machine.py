"""The lock by which tests that measure have the machine to themselves; see tests/conftest.py.

In a suite of its own, with locks of its own: here it would wait for whatever runs beside it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parents[1] / "conftest.py"
TESTS = '''\
import subprocess, sys, tempfile
import pytest

PROGRAM = """
import fcntl, pathlib, os, sys, tempfile
place = pathlib.Path(tempfile.gettempdir(), f"roofsmith-tests-{os.getuid()}")
with (place / "machine").open("w") as machine:
    fcntl.flock(machine, getattr(fcntl, sys.argv[1]) | fcntl.LOCK_NB)
"""


def another_may_have_it(how):
    """Whether a test in another process would get the machine now."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True)
    assert done.returncode == 0 or "BlockingIOError" in done.stderr, done.stderr
    return done.returncode == 0


def test_who_measures_is_alone_wherever_temporary_files_go(tmp_path, monkeypatch, alone):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert another_may_have_it("LOCK_SH")
    with alone():
        assert not another_may_have_it("LOCK_SH")
        with alone():
            assert not another_may_have_it("LOCK_SH")
        assert not another_may_have_it("LOCK_SH")
    assert another_may_have_it("LOCK_SH")
    assert not another_may_have_it("LOCK_EX")
    assert not any(tmp_path.iterdir())


@pytest.mark.timing
def test_so_is_a_test_that_is_marked():
    assert not another_may_have_it("LOCK_SH")
'''


def test_who_measures_is_alone(tmp_path: Path) -> None:
    suite, locks = tmp_path / "suite", tmp_path / "locks"
    suite.mkdir()
    locks.mkdir()
    shutil.copy(CONFTEST, suite)
    (suite / "test_alone.py").write_text(TESTS)
    (suite / "pytest.ini").write_text("[pytest]\nmarkers =\n    timing\n    slow\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=suite, env={**environment, "TMPDIR": str(locks)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert [place.name for place in locks.glob("roofsmith-*")] == [f"roofsmith-tests-{os.getuid()}"]
