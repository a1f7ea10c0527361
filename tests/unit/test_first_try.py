"""`init` has kernel and reference meet, and says what comes of it; the target is written anyway."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roofsmith.cli.root import cli

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

KERNEL = """\
#include <stdlib.h>
void solve(const float *x, float *y, float *tmp, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = 2 * x[i] + 1;
    @MORE@
}
"""
REFERENCE = """\
import time
import numpy as np

def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    inputs = {"x": x, "y": np.empty_like(x), "tmp": np.zeros_like(x), "n": n}
    return {"inputs": inputs, "outputs": ["y"]}

def reference(x, y, tmp, n):
    time.sleep(@SLEEP@)
    y[:] = 2 * x + 1
"""
CHAOS = """\
void solve(int *out, int n)
{
    for (int i = 0; i < n; i++) {
        float x = (float)(i + 1) / (float)(n + 1);
        for (int k = 0; k < 100; k++)
            x = 3.9f * (x - x * x);
        out[i] = (int)(x * 1000.0f);
    }
}
"""
OF_CHAOS = """\
import numpy as np

def setup(n, seed=0):
    return {"inputs": {"out": np.empty(n, np.int32), "n": n}, "outputs": ["out"]}

def reference(out, n):
    x = np.arange(1, n + 1, dtype=np.float32) / np.float32(n + 1)
    for _ in range(100):
        x = np.float32(3.9) * (x - x * x)
    out[:] = x * np.float32(1000)
"""


@pytest.fixture
def here(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFSMITH_CACHE", str(cache))
    return tmp_path


def init(here: Path, kernel: str, reference: str = REFERENCE) -> tuple[str, str]:
    """What `roofsmith init` prints, and says meanwhile, of a target that it writes."""
    (here / "kernel.c").write_text(kernel.replace("@MORE@", ""))
    (here / "reference.py").write_text(reference.replace("@SLEEP@", "0"))
    words = ["init", "kernel.c", "--ref", "reference.py", "--workload", "n=4096"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == ("next: roofsmith kernel check" in done.stdout), done.stderr
    assert (here / "target.yaml").exists()
    return done.stdout, done.stderr


def test_a_kernel_that_is_right_may_be_optimized(here: Path) -> None:
    out, _ = init(here, KERNEL)
    assert out.endswith("next: roofsmith optimize target.yaml\n")


@pytest.mark.parametrize(
    ("more", "reason", "cure"),
    [
        ("y[0] += 1;", "wrong_output", "disagree"),
        ("y[n] = 0;", "out_of_bounds", "indices"),
        ("abort();", "crashed", "indices"),
        ("for (volatile int k = 1; k;) {}", "timed out", "loops"),
        ("tmp[0] = 1;", "'tmp'", '"scratch"'),
    ],
)
def test_one_that_is_wrong_is_checked_first(
    here: Path, monkeypatch: pytest.MonkeyPatch, more: str, reason: str, cure: str
) -> None:
    monkeypatch.setattr("roofsmith.api.init.FIRST_CALL_S", 0.5)
    out, _ = init(here, KERNEL.replace("@MORE@", more))
    _, wrong, told, *_, last = out.splitlines()
    assert reason in wrong
    assert cure in told
    assert last == "next: roofsmith kernel check target.yaml"


@pytest.mark.skipif(
    " fma " not in Path("/proc/cpuinfo").read_text(), reason="this processor fuses nothing"
)
def test_integers_that_fused_arithmetic_decides_about(here: Path) -> None:
    out, _ = init(here, CHAOS, OF_CHAOS)
    flags = "{flags: [-O3, -march=native, -ffp-contract=off]}"
    assert flags in out
    assert "next: roofsmith kernel check" in out
    done = CliRunner().invoke(cli, ["check", "target.yaml"])
    assert done.exit_code == 1
    assert flags in done.stdout


def test_a_slow_reference_is_said(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofsmith.api.init.LONGEST_CALL_S", 0.2)
    monkeypatch.setattr("roofsmith.cli.screen._SILENCE_S", 0.1)
    out, said = init(here, KERNEL, REFERENCE.replace("@SLEEP@", "0.3"))
    assert "reference: on n=4096, for 120 s at most" in said
    assert "s a call for n=4096" in out
    assert out.endswith("next: roofsmith kernel check target.yaml\n")
