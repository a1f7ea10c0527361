"""A small repository whose benchmark writes a CSV like a paged-attention test's.

What it reports stands in the file that candidates edit, so every time is exact: a row per line,
`block_size mtp head_size us err`. Few pairs are enough, therefore; how sure more would be shows
elsewhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from roofsmith.cli.root import cli
from roofsmith.domain.facts import FactSheet
from roofsmith.specs.cited import CitedCeilings

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

KERNEL = "src/pa.rows"
ROWS = """\
16 1 64 40.0 0
16 2 64 60.0 0
1024 1 64 30.0 0
1024 1 128 80.0 0
"""
FASTER = ROWS.replace("40.0", "30.0").replace("60.0", "45.0").replace("80.0", "60.0")
BENCHMARK = """\
#!/bin/sh
# Prints noise, and writes a new file every time.
echo "running on $(pwd)"
mkdir -p out
{
    echo "block_size,mtp,head_size,us_flydsl_ps,err_flydsl_ps"
    while read -r b m h us err; do echo "$b,$m,$h,$us,$err"; done < src/pa.rows
} > "out/pa_$$.csv"
"""
TEST = "#!/bin/sh\ngrep -v broken src/pa.rows > /dev/null && ! grep -q broken src/pa.rows\n"
TARGET = """\
name: pa
keep: {error_rate: 0.3}
command:
  repo: .
  editable: [src/*.rows]
  build: sh build.sh
  test: sh test.sh
  benchmark: sh bench.sh
  results: out/*.csv
  gate: err_flydsl_ps == 0
  metric: us_flydsl_ps
  unit: us
  classes: [block_size, mtp, head_size]
"""

PICK = """\
import json, os, pathlib

DIMS = ("block_size", "mtp", "head_size")

def rows(side):
    text = pathlib.Path(os.environ["ROOFSMITH_" + side], "src/pa.rows").read_text()
    return [line.split() for line in text.splitlines()]

rule = json.load(open(os.environ["ROOFSMITH_DISPATCH"]))["python"]
lines = [
    " ".join(new if eval(rule, dict(zip(DIMS, map(int, old)))) else old)
    for old, new in zip(rows("OLD"), rows("NEW"))
]
pathlib.Path(os.environ["ROOFSMITH_MERGED"], "src/pa.rows").write_text("\\n".join(lines) + "\\n")
"""
"""Takes each row from the version that the rule gives it to."""

TRACE = """\
#!/bin/sh
# A profiler: the kernel's time is the sum of the rows, or what src/trace.rows says instead.
mkdir -p prof
{
    echo "Kernel_Name,Start_Timestamp,End_Timestamp"
    if [ -f src/trace.rows ]; then t=$(cat src/trace.rows); else
        t=$(awk '{ s += $4 } END { print s * 1000 }' src/pa.rows); fi
    echo "pa_main,0,$t"
    echo "fill,0,123456789"
} > prof/trace.csv
"""
PROFILE = "  profile: {command: sh trace.sh, results: prof/*.csv, kernel: ^pa_}\n"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    command = ["git", *identity, *arguments]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True, timeout=600
    ).stdout


def make_repository(folder: Path, **files: str) -> Path:
    """A repository with one commit; keyword `bench_sh` replaces `bench.sh`."""
    texts = {
        KERNEL: ROWS, "bench.sh": BENCHMARK, "test.sh": TEST, "build.sh": "echo built > built\n",
        "target.yaml": TARGET, ".gitignore": "out/\nbuilt\n", "data/readme": "frozen\n",
    }  # fmt: skip
    texts |= {name.replace("__", "/").replace("_", ".", 1): text for name, text in files.items()}
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "start")
    return folder


def without_ceilings(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """Measure no ceilings, which takes seconds, and keep away from the user's cache."""

    def unknown(self: CitedCeilings, environment: Any, threads: int, observer: Any) -> FactSheet:
        return FactSheet(device_id=environment.device.id)

    monkeypatch.setattr(CitedCeilings, "facts", unknown)
    monkeypatch.setenv("ROOFSMITH_CACHE", str(cache))


def without_profilers(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Watch no kernel with perf or valgrind, which takes seconds: here and in processes that are
    started."""
    programs = folder / "failing"
    programs.mkdir()
    for name in ("perf", "valgrind"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)


def run(*arguments: object) -> tuple[int, str, str]:
    """A command as the shell runs it: exit code, stdout, stderr."""
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr
