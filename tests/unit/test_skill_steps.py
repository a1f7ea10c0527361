"""A scripted agent that knows nothing but the page `roofsmith` runs its steps, in their order."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from test_app import require_quiet, roofsmith
from test_skills import blocks

from roofsmith import app

pytestmark = [
    pytest.mark.timing,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
]

SLOW = """\
void solve(const float *x, float *y, int N, int D)
{
    for (int i = 0; i < N * D; i++) {
        volatile float sum = 0.0f;
        for (int k = 0; k < 16; k++)
            sum += 0.125f * x[i];
        y[i] = sum;
    }
}
"""
FAST = """\
void solve(const float *x, float *y, int N, int D)
{
    for (int i = 0; i < N * D; i++)
        y[i] = 2.0f * x[i];
}
"""
REFERENCE = """\
import numpy as np

def setup(N, D, seed=0):
    x = np.random.default_rng(seed).standard_normal(N * D, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty_like(x), "N": N, "D": D}, "outputs": ["y"]}

def reference(x, y, N, D):
    np.multiply(x, x.dtype.type(2), out=y)

def flops(N, D):
    return N * D
"""


def test_the_steps_lead_to_a_kept_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFSMITH_CACHE", str(tmp_path / "cache"))
    Path("kernel.c").write_text(SLOW)
    Path("reference.py").write_text(REFERENCE)
    told: dict[str, Any] = {}
    for block in blocks(app.skill("roofsmith").read(), "sh"):
        for line in block.splitlines():
            words = shlex.split(line.replace("N=4096,D=4096", "N=100,D=1000"))[1:]
            if words[0] == "optimize":
                words += ["--max-iterations", "1"]  # as many as show that it can be done
            elif words[0] == "tell":
                _answer(Path("run"))
                words += ["--max-iterations", "9"]
            code, out, err = roofsmith(*words)
            require_quiet(err)
            if words[0] == "tell":
                told = json.loads(out)
                assert told["refused"] is None, told
                if told["verdict"] in ("unverified", "inconclusive"):
                    pytest.skip(f"this machine is too busy to judge: {told['notes']}")
            assert code == 0, (line, out, err)
    assert told["decision"] == "kept"
    assert told["speedup"] > 2
    assert Path("run/final_report.md").is_file()


def _answer(run: Path) -> None:
    """What somebody who read the brief answers."""
    [folder] = (run / "asks").iterdir()
    brief = json.loads((folder / "brief.json").read_text())
    answer = {
        "round": brief["round"],
        "statement": "Multiply once per element instead of sixteen times",
        "rationale": "the inner loop repeats the same product",
        "evidence": [next(iter(brief["evidence"]))],
        "answers": brief["bottleneck"]["kind"],
        "files": dict.fromkeys(brief["kernel"]["files"], FAST),
    }
    Path("proposal.json").write_text(json.dumps(answer))
