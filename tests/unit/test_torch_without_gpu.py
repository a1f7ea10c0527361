"""PyTorch where there is no GPU: kernels in it are refused in one message."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from repository_bench import run

from kinds import another
from roofsmith.machine.plugged import vendors

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(vendors(Path("/")).present), reason="this machine has a GPU"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
]

SETUP = """\
import torch

def setup(N, D, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(N, D, generator=g)
    return {"inputs": {"x": x, "y": torch.empty_like(x), "N": N, "D": D}, "outputs": ["y"]}

"""
BODY = "    y.copy_(torch.nn.functional.gelu(x))\n"
WORKLOAD = ("--ref", "kref.py", "--workload", "N=64,D=64")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFSMITH_CACHE", str(tmp_path / "cache"))
    Path("fn.py").write_text(f"{SETUP}def run_kernel(x, y, N, D):\n{BODY}")
    Path("kref.py").write_text(f"{SETUP}def reference(x, y, N, D):\n{BODY}")
    return tmp_path


@pytest.mark.parametrize("command", ["init", "optimize", another("check")])
def test_a_kernel_in_python_is_refused_with_its_name_and_a_way_on(command: str, here: Path) -> None:
    code, out, errors = run(command, "fn.py", *WORKLOAD)
    assert (code, out) == (2, "")
    assert errors.count("roofsmith: ") == 1
    assert "fn.py" in errors.split("try:")[0]
    assert "roofsmith init KERNEL.c --ref kref.py" in errors
    assert not list(here.glob("*.yaml"))


def test_a_module_goes_where_modules_go(here: Path) -> None:
    (here / "model.py").write_text("import torch\n\nclass M(torch.nn.Module):\n    pass\n")
    code, _, errors = run("init", "model.py")
    assert code == 2
    assert "roofsmith init --from-pytorch model.py" in errors
