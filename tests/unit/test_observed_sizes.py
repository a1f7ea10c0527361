"""How large a kernel's arrays are is seen as it touches them, behind the judge's walls."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


IMAGES = {"N": 8, "C": 64, "H": 56, "W": 56, "F": 128, "K": 3, "S": 2, "P": 1}
POOLED = {"N": 4, "C": 16, "H": 64, "W": 64, "K": 3, "S": 2}


@pytest.mark.parametrize(
    ("dims", "touched"),
    [
        (POOLED, "N * C * ((H - K) // S + 1) * ((W - K) // S + 1)"),
        (POOLED, "(N * C - 1) * H * W + ((H - K) // S * S + K - 1) * W + (W - K) // S * S + K"),
        (IMAGES, "N * F * ((H + 2 * P - K) // S + 1) * ((W + 2 * P - K) // S + 1)"),
        (IMAGES, "F * C * K * K"),
        ({**IMAGES, "N": 1, "C": 3, "K": 7, "P": 3}, "N * C * H * W"),
        ({"B": 2, "C": 16, "L": 4096, "K": 4, "D": 2}, "B * C * (L - D * (K - 1))"),
        ({"B": 2, "C": 16, "H": 32, "W": 32, "S": 2}, "B * C * H * S * W * S"),
        ({"B": 2, "C": 16, "H": 32, "W": 32, "S": 2, "K": 4},
         "B * C * ((H - 1) * S + K) * ((W - 1) * S + K)"),
        ({"N": 8, "C": 3, "H": 64, "W": 64}, "N * C * (H // 2) * (W // 2)"),
        ({"N": 8, "C": 3, "H": 64, "W": 64}, "4 * N * C * H * W"),
        ({"A": 32, "B": 32, "C": 32, "D": 32, "E": 32, "F": 32}, "A * B * C * D * E"),
        ({"B": 4, "T": 128, "Q": 32, "G": 8, "D": 64}, "B * T * G * D"),
        ({"n": 100000, "b": 256}, "(n + b - 1) // b"),
    ],
)  # fmt: skip
def test_windows_of_many_dimensions_are_told_apart(dims: dict[str, int], touched: str) -> None:
    """However many dimensions there are, an array fits what is watched; windows stay small."""
    sets = next(sizes_of(dims))
    said = expression([eval(touched, {}, one) for one in sets], sets)
    whole = touched if "- 1) * H * W +" not in touched else "N * C * H * W"
    assert said is not None
    assert eval(said, {}, dims) == eval(whole, {}, dims), said


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
def test_numbers_that_nobody_knows_differ(here: Path) -> None:
    names = ("a", "b", "c", "d")
    kernel = (
        f"void mix(const float *x, float *y, int n, {', '.join(f'float {one}' for one in names)})"
        " { for (int i = 0; i < n; i++) y[i] = a * x[i] + b - c * d; }"
    )
    made: dict[str, Any] = {}
    exec(init(here, kernel, "n=64")[2], made)
    inputs = made["setup"](n=64)["inputs"]
    assert len({inputs[one] for one in names} - {1.0}) == len(names)


@needs_gcc
def test_a_setup_is_added_to_a_reference_without_one(here: Path) -> None:
    code, out, text = init(here, HISTOGRAM, "n=40000", OF_HISTOGRAM)
    assert (code, "next: roofsmith optimize" in out) == (0, True)
    assert text.startswith(OF_HISTOGRAM)
    assert "p = rng.integers(0, 256, n, dtype=np.uint8)" in text
    assert "h = np.empty(256, np.uint32)" in text


@needs_gcc
@pytest.mark.parametrize("wrong", [("--family", "no such"), ("--include", "missing.h")])
def test_what_fails_leaves_a_reference_as_it_was(here: Path, wrong: tuple[str, str]) -> None:
    (here / "kernel.c").write_text(HISTOGRAM)
    (here / "reference.py").write_text(OF_HISTOGRAM)
    told = ["init", "kernel.c", "--ref", "reference.py", "--workload", "n=40000", *wrong]
    assert CliRunner().invoke(cli, told).exit_code == 2
    assert (here / "reference.py").read_text() == OF_HISTOGRAM
    assert not (here / "target.yaml").exists()


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


POOL = """\
void pool(const float *in, float *out, int N, int C, int H, int W, int K, int S) {
    int R = (H - K) / S + 1, Q = (W - K) / S + 1;
    for (int p = 0; p < N * C; p++)
        for (int i = 0; i < R; i++)
            for (int j = 0; j < Q; j++) {
                float best = -1e30f;
                for (int a = 0; a < K; a++)
                    for (int b = 0; b < K; b++) {
                        float v = in[(p * H + i * S + a) * W + j * S + b];
                        best = v > best ? v : best;
                    }
                out[(p * R + i) * Q + j] = best;
            }
}
"""
OF_POOL = """\
import numpy as np

def reference(in_, out, N, C, H, W, K, S):
    view = np.lib.stride_tricks.sliding_window_view(in_.reshape(N * C, H, W), (K, K), (1, 2))
    out.reshape(N * C, (H - K) // S + 1, -1)[:] = view[:, ::S, ::S].max(axis=(3, 4))
"""


@needs_gcc
def test_images_and_their_windows_have_the_sizes_that_the_kernel_touches(here: Path) -> None:
    code, out, text = init(here, POOL, "N=2,C=3,H=17,W=20,K=3,S=2", OF_POOL)
    assert (code, "next: roofsmith optimize" in out) == (0, True), out
    assert "in_ = rng.standard_normal(N * C * H * W, dtype=np.float32)" in text


@needs_gcc
@pytest.mark.parametrize(
    ("kernel", "reference", "said"),
    [
        (POOL, OF_POOL.replace("(in_, out", "(x, out").replace("in_.", "x."), "in_, x"),
        (POOL.replace("int R =", "if (H != 17) __builtin_trap(); int R ="), OF_POOL, "H * W el"),
        (POOL, OF_POOL.replace("in_.reshape(N * C", "in_.reshape(9"), "those that the kernel"),
    ],
    ids=["names", "unwatched", "reference"],
)
def test_what_is_to_blame_is_said(here: Path, kernel: str, reference: str, said: str) -> None:
    """Names, or sizes that nobody has looked at, before a reference that raises."""
    (here / "kernel.c").write_text(kernel)
    (here / "reference.py").write_text(reference)
    dims = "N=2,C=3,H=17,W=20,K=3,S=2"
    done = CliRunner().invoke(cli, ["init", "kernel.c", "--workload", dims, "--threads", "1"])
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


@needs_gcc
def test_a_reference_in_pytorch_serves_a_kernel_in_c(here: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    code, out, text = init(here, GELU.replace("0.5f", "0.6f"), "N=64,D=128", TENSORS)
    assert (code, text) == (1, TENSORS), out
    assert "wrong_output" in out
    bare = f"import torch\n\n{TENSORS[TENSORS.index('def reference') :]}".replace("(x,", "(a,", 1)
    bare = bare.replace("a, y, N, D):", "x, y, N, D):\n    x, y = x.view(N, D), y.view(N, D)")
    (here / "target.yaml").unlink()
    code, out, text = init(here, GELU, "N=64,D=128", bare)
    assert (code, "setup" in text) == (0, False), out


def test_a_number_that_is_no_size_has_a_way_in(here: Path) -> None:
    (here / "kernel.c").write_text(STENCIL)
    done = CliRunner().invoke(cli, ["init", "kernel.c", "--workload", "N=64,a=0.1"])
    assert done.exit_code == 2
    assert "setup()" in done.stderr
