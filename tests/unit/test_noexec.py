"""Folders that are mounted noexec: by a real mount, of this process's children alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository_bench import make_repository, needs_git

MOUNTED = (
    "unshare", "--user", "--map-root-user", "--mount",
    "sh", "-c", 'mount -t tmpfs -o noexec tmpfs "$1" && shift && exec "$@"', "mounted",
)  # fmt: skip
INIT = (
    "init", "--repo", "repository", "--editable", "src/*.rows", "--benchmark", "./bench.sh",
    "--results", "out/*.csv", "--force",
)  # fmt: skip
CHECK = ("check", "k.c", "--ref", "r.py", "--workload", "N=1000")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder to mount, and what is tried beside it."""
    (tmp_path / "noexec").mkdir()
    if subprocess.run([*MOUNTED, tmp_path / "noexec", "true"], check=False).returncode != 0:
        pytest.skip("no private mounts here")
    (tmp_path / "k.c").write_text("void solve(const float *x, float *y, int N) { *y = *x; }\n")
    (tmp_path / "r.py").write_text("def reference(x, y, N):\n    y[0] = x[0]\n")
    return tmp_path


def tried(place: Path, variables: dict[str, Path], *command: str) -> tuple[int, str]:
    """Exit code and what is said, where `noexec` is mounted so."""
    ran = subprocess.run(
        [*MOUNTED, place / "noexec", sys.executable, "-m", "roofsmith", *command],
        cwd=place, env={**os.environ, "ROOFSMITH_CACHE": f"{place}/cache", **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ran.returncode, ran.stdout + ran.stderr


def test_a_cache_that_nothing_is_loaded_from_is_refused(place: Path) -> None:
    code, said = tried(place, {"ROOFSMITH_CACHE": place / "noexec/cache"}, *CHECK)
    assert code == 2
    assert f"{place}/noexec" in said
    assert "export ROOFSMITH_CACHE" in said


@needs_git
def test_checkouts_lie_where_programs_may_run(place: Path) -> None:
    repository = make_repository(place / "repository")
    (repository / "bench.sh").chmod(0o755)
    git = ("git", "-C", repository, "-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run([*git, "commit", "-qam", "programs"], check=True)
    noexec = {"TMPDIR": place / "noexec"}
    code, said = tried(place, noexec, *INIT)
    assert code == 0, said
    assert not [*(place / "cache").glob("roofsmith-*")]
    code, said = tried(place, noexec | {"ROOFSMITH_CACHE": place / "noexec"}, *INIT)
    assert (code, "export TMPDIR" in said) == (2, True)
