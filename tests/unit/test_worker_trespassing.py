"""Walls around workers against one that tries every way to change a file that isn't its own."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trespasser

from roofsmith.judge.booting import boot
from roofsmith.judge.sandbox.inside import FILTER
from roofsmith.judge.sandbox.isolation import isolate
from roofsmith.landlock import LANDLOCK
from roofsmith.namespaces import MOUNT

GRANTED = isolate("standard").layers
BEHIND_WALLS = """
import sys
sys.path[:0] = [sys.argv[3], sys.argv[4]]
import trespasser
from pathlib import Path
from roofsmith.judge.sandbox.inside import put_up

outside, own = Path(sys.argv[1]), Path(sys.argv[2])
plan = {"layers": sys.argv[5].split(","), "library": sys.argv[6] == "library", "tasks": 64,
        "scratch": str(own), "readable": [str(outside)], "writable": [], "sockets": False}

def tried(attempt):
    put_up(plan)
    attempt()

for name, attempt in trespasser.changes(outside, own):
    (own / "mine").write_text("mine")
    trespasser.attempted(name, lambda attempt=attempt: tried(attempt))
"""


@pytest.mark.parametrize(
    ("layers", "form"),
    [((LANDLOCK, FILTER), "library"), ((MOUNT, LANDLOCK, FILTER), "module")],
)
def test_a_worker_changes_nothing_about_a_file(
    layers: tuple[str, ...], form: str, tmp_path: Path
) -> None:
    if missing := set(layers) - set(GRANTED):
        pytest.skip(f"no {', '.join(missing)} here")
    if MOUNT in layers and os.geteuid() != 0:
        pytest.skip("not root")
    outside, own = tmp_path / "outside", tmp_path / "own"
    own.mkdir()
    trespasser.make(outside)
    here = [str(Path(trespasser.__file__).parent), str(Path(__file__).parents[2] / "src")]
    done = subprocess.run(
        [sys.executable, "-c", BEHIND_WALLS, str(outside), str(own), *here, ",".join(layers), form],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == ""


def test_a_filter_alone_keeps_what_landlock_knows_nothing_of(tmp_path: Path) -> None:
    """Modes, owners, times, attributes and flags."""
    if FILTER not in GRANTED:
        pytest.skip("no filter here")
    outside, own = tmp_path / "outside", tmp_path / "own"
    own.mkdir()
    trespasser.make(outside)
    here = [str(Path(trespasser.__file__).parent), str(Path(__file__).parents[2] / "src")]
    done = subprocess.run(
        [sys.executable, "-c", BEHIND_WALLS, str(outside), str(own), *here, FILTER, "library"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    known = ("open", "truncate", "fallocate", "creat", "nameless", "rename", "link", "symlink",
             "unlink", "mk", "rmdir", "socket")  # fmt: skip
    assert [name for name in done.stdout.splitlines() if not name.startswith(known)] == []


def test_standard_input_is_nothing_that_others_have(tmp_path: Path) -> None:
    (tmp_path / "fumbler.py").write_text(
        "import os\n"
        "def main():\n"
        "    os.fchmod(0, 0o600)\n"
        "    print(os.fstat(0).st_mode, os.read(0, 1))\n"
    )
    before = Path(os.devnull).stat().st_mode
    ours, theirs = socket.socketpair()
    with ours, theirs, (tmp_path / "out").open("wb") as output:
        process = boot(
            "fumbler", theirs, output, cwd=tmp_path, bare=False,
            environment={"PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        assert process.wait(60) == 0
    mode, said = (tmp_path / "out").read_text().split()
    assert stat.S_ISFIFO(int(mode))
    assert said == "b''"
    assert Path(os.devnull).stat().st_mode == before
