"""Kernels as people have them run unchanged: `solve` beside a bare `reference`, `const` or not; and
a module with `setup` and `run_kernel`.

`pytest -m device tests/device/test_plain_contract_on_device.py -rs`: a few minutes on an H100, most
of them for the ceilings that a floor is computed with.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_bench import environment_or_skip

pytestmark = pytest.mark.device

N = 1 << 27
"""Arrays of half a gigabyte: far beyond the caches, so that a floor 1.67 times too high shows."""
REFERENCE = """
def reference(**given):
    given["total"].copy_(given["left"] + given["right"])
"""
WITH_SETUP = (
    REFERENCE
    + """

def setup(n, seed):
    import torch

    left, right = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    inputs = {"left": left, "right": right, "total": torch.empty_like(left), "n": n}
    return {"inputs": inputs, "outputs": ["total"]}
"""
)
ACCUMULATING = """
def reference(left, right, total, n):
    total += left * right
"""
CUDA = """
#include <cuda_runtime.h>

__global__ void __launch_bounds__(256) sums(const float* x, const float* y, float* z, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        BODY
}

extern "C" void solve(CONST float* left, CONST float* right, float* total, int n) {
    sums<<<(n + 255) / 256, 256>>>(left, right, total, n);
    AFTER
    cudaDeviceSynchronize();
}
"""
TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def sums(left, right, total, n, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = at < n
    x = tl.load(left + at, mask=inside, other=0.0)
    tl.store(total + at, x + tl.load(right + at, mask=inside, other=0.0), mask=inside)


def setup(n=4096, seed=1, **more):
    torch.manual_seed(seed)
    left, right = (torch.randn((n,), device="cuda") for _ in range(2))
    inputs = {"left": left, "right": right, "total": torch.empty_like(left), "n": n}
    return {"inputs": inputs, "outputs": ["total"]}


def run_kernel(**given):
    n = int(given["n"])
    grid = (triton.cdiv(n, 1024),)
    sums[grid](given["left"], given["right"], given["total"], n, WIDTH=1024)
"""


def cuda(const: bool, body: str = "z[i] = x[i] + y[i];", after: str = "") -> str:
    text = CUDA.replace("CONST ", "const " if const else "")
    return text.replace("BODY", body).replace("AFTER", after)


@pytest.fixture(autouse=True)
def _gpu() -> None:
    environment_or_skip()


def said(folder: Path, *arguments: str, n: int = N) -> dict[str, Any]:
    """What a command answers about kernels in a folder."""
    ran = subprocess.run(
        [sys.executable, "-m", "roofsmith", *arguments, "-w", f"n={n}", "--json"],
        cwd=folder, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def written(folder: Path, **files: str) -> Path:
    """Files by their names, with an underscore for the dot."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def checked(folder: Path, kernel: str = "add.cu", n: int = N) -> tuple[str, str | None]:
    """Outcome of a check, and its reason."""
    found = said(folder, "check", kernel, "--ref", "ref.py", n=n)
    return found["outcome"], found["reason"]


@pytest.mark.parametrize("reference", [REFERENCE, WITH_SETUP], ids=["bare", "setup"])
@pytest.mark.parametrize("const", [False, True], ids=["open", "const"])
def test_an_honest_addition_passes_and_is_no_cheat(
    tmp_path: Path, const: bool, reference: str
) -> None:
    folder = written(tmp_path, add_cu=cuda(const), ref_py=reference)
    assert checked(folder) == ("passed", None)
    (bound,) = said(folder, "roofline", "add.cu", "--ref", "ref.py")["bounds"]
    assert bound["cost"]["read_bytes"] + bound["cost"]["written_bytes"] == 12 * N
    slower = cuda(const, after="sums<<<n / 1024, 256>>>(left, right, total, n / 4);")
    written(tmp_path, slow_cu=slower)
    found = said(folder, "judge", "add.cu", "--against", "slow.cu", "--ref", "ref.py")
    assert (found["outcome"], found["verdict"]) == ("passed", "faster"), found["detail"]


@pytest.mark.parametrize("const", [False, True], ids=["open", "const"])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("if (i != 5) z[i] = x[i] + y[i];", "skipped_work"),
        ("{ z[i] = x[i] + y[i]; if (i == 5) ((float*)x)[i] = 0; }", "input_altered"),
        ("z[i] += x[i] + y[i];", "nan_output"),
    ],
    ids=["leaves one out", "scribbles in an input", "adds to what was there"],
)
def test_failures_have_the_same_names_const_or_not(
    tmp_path: Path, const: bool, body: str, reason: str
) -> None:
    folder = written(tmp_path, add_cu=cuda(const, body), ref_py=REFERENCE)
    assert checked(folder, n=1 << 20) == ("incorrect", reason)


@pytest.mark.parametrize("const", [False, True], ids=["open", "const"])
def test_an_output_may_begin_from_something(tmp_path: Path, const: bool) -> None:
    folder = written(tmp_path, add_cu=cuda(const, "z[i] += x[i] * y[i];"), ref_py=ACCUMULATING)
    assert checked(folder, n=1 << 20) == ("passed", None)
    written(folder, add_cu=cuda(const, "z[i] = x[i] * y[i];"))
    assert checked(folder, n=1 << 20) == ("incorrect", "wrong_output")


def test_a_module_brings_its_own_setup(tmp_path: Path) -> None:
    folder = written(tmp_path, add_py=TRITON, ref_py=REFERENCE)
    assert checked(folder, "add.py") == ("passed", None)
    (bound,) = said(folder, "roofline", "add.py", "--ref", "ref.py")["bounds"]
    assert bound["cost"]["read_bytes"] + bound["cost"]["written_bytes"] == 12 * N
    written(folder, more_py=TRITON.replace("x + tl.load", "x - tl.load"))
    assert checked(folder, "more.py") == ("incorrect", "wrong_output")


def test_names_that_do_not_match_are_told(tmp_path: Path) -> None:
    folder = written(tmp_path, add_cu=cuda(const=False).replace("left", "in0"), ref_py=REFERENCE)
    ran = subprocess.run(
        [sys.executable, "-m", "roofsmith", "check", "add.cu", "--ref", "ref.py", "-w", "n=4096"],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    told = " ".join(ran.stderr.split())
    assert ran.returncode == 2
    assert "reference: KeyError (line 3): 'left'" in told
    assert "without a setup, reference is called with solve's names: in0, right, total, n" in told
