"""How large a kernel's arrays are is seen as it touches them, behind the judge's walls."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roofsmith.analysis.extents import expression, sizes_of
from roofsmith.cli.root import cli

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
STENCIL = """\
/* 7-point heat step on a 3D grid, zero boundary kept */
void solve(const float* u, float* v, int N, float a) {
    for (int i = 1; i < N - 1; i++)
        for (int j = 1; j < N - 1; j++)
            for (int k = 1; k < N - 1; k++) {
                int c = (i * N + j) * N + k;
                v[c] = u[c] + a * (u[c - 1] + u[c + 1] + u[c - N] + u[c + N]
                                   + u[c - N * N] + u[c + N * N] - 6.0f * u[c]);
            }
}
"""
SPMV = """\
/* y = A x, A in CSR */
void spmv(const int* indptr, const int* indices, const float* values, const float* x, float* y,
          int rows, int cols, int nnz) {
    for (int r = 0; r < rows; r++) {
        float s = 0.0f;
        for (int k = indptr[r]; k < indptr[r + 1]; k++) s += values[k] * x[indices[k]];
        y[r] = s;
    }
}
"""
HISTOGRAM = """\
void count(const unsigned char *p, int n, unsigned *h) {
    for (int i = 0; i < 256; i++) h[i] = 0;
    for (int i = 0; i < n; i++) h[p[i]]++;
}
"""
OF_HISTOGRAM = (
    "import numpy as np\n\ndef reference(p, n, h):\n    h[:] = np.bincount(p, None, 256)\n"
)
EMA = """\
void ema(const double *x, double *y, double *last, int n, int rows, double alpha) {
    for (int r = 0; r < rows; r++) {
        double s = last[r];
        for (int i = 0; i < n; i++) y[r * n + i] = s += alpha * (x[r * n + i] - s);
        last[r] = s;
    }
}
"""
HOSTILE = """\
#include <signal.h>
#include <unistd.h>
void solve(const float *x, float *y, int n) {
    signal(SIGSEGV, SIG_DFL);
    if (n < 2000) *(volatile int *)8 = 1;
    for (int i = 0; i < n; i++) y[i] = x[i];
}
"""
TENSORS = """\
import torch

def setup(N, D, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(N, D, generator=g)
    return {"inputs": {"x": x, "y": torch.empty_like(x), "N": N, "D": D}, "outputs": ["y"]}

def reference(x, y, N, D):
    y.copy_(torch.nn.functional.gelu(x) * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5))
"""
GELU = """\
#include <math.h>
void solve(const float* x, float* y, int N, int D) {
  for (int i = 0; i < N; i++) { float s = 0; for (int j = 0; j < D; j++) s += x[i*D+j]*x[i*D+j];
    for (int j = 0; j < D; j++)
      y[i*D+j] = 0.5f*x[i*D+j]*(1+erff(x[i*D+j]*0.70710678f)) / sqrtf(s/D+1e-5f); } }
"""


@pytest.mark.parametrize(
    ("dims", "touched", "said"),
    [
        ("N", lambda N: N**3, "N * N * N"),
        ("N", lambda N: N**3 - N * N - N - 1, "N * N * N"),
        ("N D", lambda N, D: N * D, "N * D"),
        ("N", lambda N: N - 1, "N"),
        ("N", lambda N: N + 1, "N + 1"),
        ("N", lambda N: N * (N + 1) // 2, "N * (N + 1) // 2"),
        ("N", lambda N: 3 * N, "3 * N"),
        ("R H W", lambda R, H, W: (H - R + 1) * W, "W * (H - R + 1)"),
        ("N", lambda N: 256, "256"),
        ("N", lambda N: N**5 + 7, None),
    ],
)
def test_sizes_are_expressions_in_dimensions(
    dims: str, touched: Callable[..., int], said: str | None
) -> None:
    names = dims.split()
    sets = next(sizes_of({name: 100 * number for number, name in enumerate(names, 1)}))
    assert expression([touched(**one) for one in sets], sets) == said


@pytest.fixture
def here(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFSMITH_CACHE", str(cache))
    return tmp_path


def init(here: Path, kernel: str, workload: str, reference: str = "") -> tuple[int, str, str]:
    """Exit status, what was printed, and the reference afterwards."""
    (here / "kernel.c").write_text(kernel)
    if reference:
        (here / "reference.py").write_text(reference)
    done = CliRunner().invoke(cli, ["init", "kernel.c", "--workload", workload, "--threads", "1"])
    assert done.exit_code in (0, 1), (done.stdout, done.stderr)
    return done.exit_code, done.stdout, (here / "reference.py").read_text()


@needs_gcc
@pytest.mark.parametrize(
    ("kernel", "workload", "lines", "looked_at"),
    [
        (STENCIL, "N=64", ["u = rng.standard_normal(N * N * N, dtype=np.float32)",
                           "v = np.empty(N * N * N, np.float32)", "a = 0.5  # EDIT"], 2),
        (SPMV, "rows=500,cols=400,nnz=9000", [
            "indptr = np.sort(np.r_[0, rng.integers(0, nnz + 1, rows + 1 - 2), nnz])",
            "indices = rng.integers(0, cols, nnz, dtype=np.int32)",
            "x = rng.standard_normal(cols, dtype=np.float32)"], 4),
        (EMA, "rows=50,n=400", ["last = rng.standard_normal(rows, dtype=np.float64)",
                                '"outputs": ["y"], "inouts": ["last"]'], 2),
    ],
    ids=["stencil", "spmv", "ema"],
)  # fmt: skip
def test_a_reference_is_begun(
    here: Path, kernel: str, workload: str, lines: list[str], looked_at: int
) -> None:
    code, out, text = init(here, kernel, workload)
    assert code == 1
    assert "write its reference()" in out
    assert [line for line in lines if line not in text] == []
    assert text.count("# EDIT:") == looked_at
    compile(text, "reference.py", "exec")


@needs_gcc
def test_a_setup_is_added_to_a_reference_without_one(here: Path) -> None:
    code, out, text = init(here, HISTOGRAM, "n=40000", OF_HISTOGRAM)
    assert (code, "next: roofsmith optimize" in out) == (0, True)
    assert text.startswith(OF_HISTOGRAM)
    assert "p = rng.integers(0, 256, n, dtype=np.uint8)" in text
    assert "h = np.empty(256, np.uint32)" in text


@needs_gcc
def test_what_the_reference_computes_is_counted_before_any_campaign(here: Path) -> None:
    """Neither a family nor `flops` says it: it is read, by init's note and by the roofline."""
    kernel = "void scale(const float *x, float *y, int n) {\n    for (int i = 0; i < n; i++) "
    kernel += "y[i] = 3.0f * x[i] + 1.0f;\n}\n"
    code, out, _ = init(here, kernel, "n=40000", "def reference(x, y, n):\n    y[:] = 3 * x + 1\n")
    assert (code, "bytes only" in out) == (0, False), out
    done = CliRunner().invoke(cli, ["kernel", "roofline", "target.yaml", "--json"])
    [bound] = json.loads(done.stdout)["bounds"]
    assert bound["cost"]["flops"] == 80000


LUT = """\
void apply(const unsigned short *in, const float *table, float *rng, int n) {
    for (int i = 0; i < n; i++) rng[i] = table[in[i]];
}
"""
OF_LUT = "def reference(in_, table, rng, n):\n    rng[:] = table[in_]\n"


@needs_gcc
def test_names_that_python_has_for_itself_and_narrow_indices_draw_inputs(here: Path) -> None:
    """`in` is a word of Python's, `rng` the generator's name in `setup`."""
    code, out, text = init(here, LUT, "n=100000", OF_LUT)
    assert (code, "next: roofsmith optimize" in out) == (0, True), out
    assert "in_ = rng.integers(0, min(n, 65536), n, dtype=np.uint16)" in text
    compile(text, "reference.py", "exec")


@needs_gcc
def test_a_kernel_that_fights_back_is_told_apart_from_one_that_was_seen(here: Path) -> None:
    _, out, text = init(here, HOSTILE, "n=4000")
    assert "couldn't be watched" in text
    assert "look at lines" in out


def init_again(here: Path, reference: str, workload: str) -> tuple[int, str, str]:
    (here / "target.yaml").unlink()
    return init(here, GELU, workload, reference)


@needs_gcc
def test_a_reference_in_pytorch_serves_a_kernel_in_c(here: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    code, out, text = init(here, GELU, "N=64,D=128", TENSORS)
    assert (code, text) == (0, TENSORS), out
    bare = f"import torch\n\n{TENSORS[TENSORS.index('def reference') :]}".replace("(x,", "(a,", 1)
    bare = bare.replace("a, y, N, D):", "x, y, N, D):\n    x, y = x.view(N, D), y.view(N, D)")
    code, out, text = init_again(here, bare, "N=64,D=128")
    assert (code, "setup" in text) == (0, False), out
    (here / "kernel.c").write_text(GELU.replace("0.5f", "0.6f"))
    assert CliRunner().invoke(cli, ["check", "target.yaml"]).exit_code == 1


def test_a_number_that_is_no_size_has_a_way_in(here: Path) -> None:
    (here / "kernel.c").write_text(STENCIL)
    done = CliRunner().invoke(cli, ["init", "kernel.c", "--workload", "N=64,a=0.1"])
    assert done.exit_code == 2
    assert "setup()" in done.stderr
