"""A reference whose inputs are the same for every seed: nobody would notice what is remembered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roofsmith.cli.root import cli

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
    pytest.mark.slow,
]

KERNEL = """\
void solve(const float *x, const float *w, float *y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = w[i] * x[i];
}
"""
REFERENCE = """\
import numpy as np

def setup(n, seed=0):
    x = np.random.default_rng(@X@).standard_normal(n, dtype=np.float32)
    w = np.random.default_rng(@W@).standard_normal(n, dtype=np.float32)
    return {"inputs": {"x": x, "w": w, "y": np.empty_like(x), "n": n}, "outputs": ["y"]}

def reference(x, w, y, n):
    np.multiply(w, x, out=y)

def flops(n):
    return n
"""
TABLE = """\
void solve(float *y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = 1.0f / (i + 1);
}
"""
OF_TABLE = """\
import numpy as np

def setup(n, seed=0):
    return {"inputs": {"y": np.empty(n, dtype=np.float32), "n": n}, "outputs": ["y"]}

def reference(y, n):
    y[:] = 1 / (np.arange(n) + 1)

def flops(n):
    return n
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFSMITH_CACHE", str(tmp_path / "cache"))
    return tmp_path


def init(here: Path, kernel: str, reference: str) -> tuple[int, str]:
    """Exit status and stderr of `roofsmith init`."""
    (here / "kernel.c").write_text(kernel)
    (here / "reference.py").write_text(reference)
    words = ["init", "kernel.c", "--ref", "reference.py", "--workload", "n=4096"]
    done = CliRunner().invoke(cli, words)
    return done.exit_code, " ".join(done.stderr.split())


def drawn(x: str, w: str) -> str:
    """A reference whose arrays come from these seeds."""
    return REFERENCE.replace("@X@", x).replace("@W@", w)


def test_a_seed_that_is_ignored_is_refused(here: Path) -> None:
    code, said = init(here, KERNEL, drawn("1", "2"))
    assert code == 2
    assert "(x, w)" in said
    assert "np.random.default_rng(seed)" in said
    assert not (here / "target.yaml").exists()


def test_also_where_no_target_was_written(here: Path) -> None:
    init(here, KERNEL, drawn("1", "2"))
    subject = ["--ref", "reference.py", "--workload", "n=4096"]
    done = CliRunner().invoke(cli, ["judge", "kernel.c", "--against", "kernel.c", *subject])
    assert done.exit_code == 2
    assert "setup gives the same inputs" in done.stderr


@pytest.mark.parametrize(("x", "w"), [("seed", "2"), ("1", "seed"), ("seed", "seed + 1")])
def test_weights_may_be_the_same_where_something_is_not(here: Path, x: str, w: str) -> None:
    assert init(here, KERNEL, drawn(x, w))[0] == 0


COUNTING = """\
void solve(const int *x, int *h, int n, int bins)
{
    for (int b = 0; b < bins; b++)
        h[b] = bins == 1 ? @ONE@ : 0;
    for (int i = 0; i < n && bins > 1; i++)
        h[x[i]]++;
}
"""
OF_COUNTS = """\
import numpy as np

def setup(n, bins, seed=0):
    x = np.random.default_rng(seed).integers(0, bins, n, dtype=np.int32)
    return {"inputs": {"x": x, "h": np.empty(bins, np.int32), "n": n, "bins": bins},
            "outputs": ["h"]}

def reference(x, h, n, bins):
    h[:] = np.bincount(x, minlength=bins)
"""


def test_one_bin_is_checked_and_no_reason_to_refuse_the_rest(here: Path) -> None:
    (here / "reference.py").write_text(OF_COUNTS)
    sizes = ["--workload", "n=4096,bins=64", "--workload", "n=4096,bins=1"]
    subject = ["kernel.c", "--ref", "reference.py", *sizes]
    (here / "kernel.c").write_text(COUNTING.replace("@ONE@", "n"))
    done = CliRunner().invoke(cli, ["init", *subject])
    assert done.exit_code == 0
    assert "bins=1" in done.stdout
    (here / "kernel.c").write_text(COUNTING.replace("@ONE@", "n + 1"))
    done = CliRunner().invoke(cli, ["check", *subject, "--json"])
    found = json.loads(done.stdout)
    assert (found["outcome"], done.exit_code) == ("incorrect", 1)
    assert any("bins=1" in note for note in found["notes"])
    assert not any("bins=1" in error["workload"].split(",") for error in found["errors"])


def test_a_kernel_that_reads_nothing_computes_the_same_by_nature(here: Path) -> None:
    assert init(here, TABLE, OF_TABLE)[0] == 0


def test_a_kernel_that_does_not_build_is_no_target(here: Path) -> None:
    code, said = init(here, KERNEL.replace("w[i]", "v[i]"), drawn("seed", "seed"))
    assert code == 1
    assert "kernel.c doesn't build" in said
    assert "nothing was written" in said
    assert not (here / "target.yaml").exists()
