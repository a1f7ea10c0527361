"""What part of a benchmark's run may be edited is said before anything is tried."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from roofsmith.domain.command import EditableShare
from roofsmith.domain.kernel import Built, Signature, SourceFile
from roofsmith.repository.share import editable_share

KERNEL = """\
static double add(double a, double b) { return a + b; }
double kernel(const double *x, int n) {
    double s = 0;
    for (int k = 0; k < 1000; k++) for (int i = 0; i < n; i++) s = add(s, x[i] / (k + 1));
    return s;
}
"""
BENCH = """\
#include <stdio.h>
double kernel(const double *x, int n);
static double x[100000];
__attribute__((noinline)) double other(int n) {
    volatile double s = 0;
    for (int k = 0; k < n; k++) for (int i = 0; i < 100000; i++) s = s + x[i] / (k + 1);
    return s;
}
int main(void) { printf("n,ms\\n1,%g\\n", 1 + 0 * (kernel(x, 100000) + other(OTHER))); }
"""


def built(folder: Path) -> Built:
    return Built(
        candidate_id="a", library=folder, library_sha256="", environment={}, command="",
        signature=Signature(parameters=()), log=folder / "b.log", build_time_s=0,
    )  # fmt: skip


def share(tmp_path: Path, other: int, path: str = "kernel.c") -> EditableShare:
    (tmp_path / "kernel.c").write_text(KERNEL)
    (tmp_path / "bench.c").write_text(BENCH)
    command = ["cc", "-O2", f"-DOTHER={other}", "kernel.c", "bench.c", "-o", "bench"]
    subprocess.run(command, cwd=tmp_path, check=True)
    sources = (SourceFile(path=path, text=KERNEL),)
    return editable_share(built(tmp_path), "./bench", sources, 0.3, tmp_path / "share.log")


needs_perf = pytest.mark.skipif(
    shutil.which("perf") is None or shutil.which("cc") is None, reason="needs perf and a compiler"
)


@needs_perf
def test_the_editable_part_of_a_run_bounds_the_gain(tmp_path: Path) -> None:
    found = share(tmp_path, other=0)
    if "under perf" in found.unknown:
        pytest.skip("perf may not sample here")
    assert found.editable > 0.9 * found.samples
    half = share(tmp_path, other=1000)
    assert half.editable < 0.9 * half.samples


@needs_perf
def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    assert share(tmp_path, other=0, path="kernel.h").unknown == "of .h files nobody can tell"


@pytest.mark.parametrize(("said", "is_much"), [("kernel.py", True), ("unused.py", False)])
def test_pythons_frames_are_counted(tmp_path: Path, said: str, is_much: bool) -> None:
    texts = {
        "kernel.py": "def total(n):\n    return sum(i * i for i in range(n))\n",
        "unused.py": "def total(n):\n    return n\n",
        "bench.py": "import kernel, unused\nfor _ in range(30): kernel.total(200_000)\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    sources = (SourceFile(path=said, text=texts[said]),)
    command = f"{shlex.quote(sys.executable)} bench.py"
    found = editable_share(built(tmp_path), command, sources, 0.3, tmp_path / "share.log")
    assert (found.editable > found.samples / 2) is is_much


def test_a_share_is_a_bound_in_words() -> None:
    fifth = EditableShare(samples=100, editable=20)
    assert fifth.most_speedup == pytest.approx(1.25)
    assert "no change gains more than 1.25x" in fifth.sentence
    assert "no change gains more than 100x" in EditableShare(samples=50, editable=50).sentence
    assert "is what may be edited what is measured?" in EditableShare(samples=100).sentence
    assert EditableShare(unknown="perf isn't there").part is None
