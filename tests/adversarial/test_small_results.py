"""Elements that are small beside the largest of their row have to be right as well."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_bench import bench, needs_gcc

from kinds import another
from roofsmith.domain.outcome import Outcome, Passed
from roofsmith.judge.correctness.examiner import Examiner
from roofsmith.judge.host.lineup import HostBench

pytestmark = needs_gcc

SETUP = """
import numpy as np
def setup(n, d, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d), dtype=np.float32)
    scale = np.exp(rng.uniform(-40, 0, d)).astype(np.float32)
    inputs = {"x": x, "scale": scale, "y": np.empty_like(x), "n": n, "d": d}
    return {"inputs": inputs, "outputs": ["y"]}
def reference(x, scale, y, n, d):
    np.multiply(np.tanh(x), scale, out=y)
"""
KERNEL = """
#include <math.h>
void solve(const float *x, const float *scale, float *y, int n, int d) {{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < d; j++) y[i * d + j] = {result};
}}
"""
HONEST = KERNEL.format(result="tanhf(x[i * d + j]) * scale[j]")

EXP_SETUP = """
import numpy as np
def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32) * np.float32(12)
    return {"inputs": {"x": x, "y": np.empty_like(x), "n": n}, "outputs": ["y"]}
def reference(x, y, n):
    np.exp(x, out=y)
"""
EXP = """
#include <math.h>
void solve(const float *x, float *y, int n) {{
    for (int i = 0; i < n; i++) y[i] = {result};
}}
"""


def examined(
    builds: Path, kernel: str, other: str, reference: str, workload: dict[str, int]
) -> Outcome:
    with bench(builds, kernel=kernel, reference=reference, workloads=[workload]) as made:
        examiner = Examiner(made.target, HostBench(made.oracle, made.target.tolerance, 1))
        incumbent = made.built(kernel)
        assert isinstance(examiner.examine(incumbent, lambda *_: None)[0], Passed)
        return examiner.examine(made.built(other), lambda *_: None, incumbent)[0]


def channels(builds: Path, result: str) -> Outcome:
    return examined(builds, HONEST, KERNEL.format(result=result), SETUP, {"n": 64, "d": 512})


def exponentials(builds: Path, result: str) -> Outcome:
    honest = EXP.format(result="expf(x[i])")
    return examined(builds, honest, EXP.format(result=result), EXP_SETUP, {"n": 65536})


def test_small_channels_are_no_zeros(builds: Path, scratch: Path) -> None:
    outcome = channels(builds, "scale[j] < 1e-9f ? 0.0f : tanhf(x[i * d + j]) * scale[j]")
    assert outcome.kind == "incorrect"
    assert "however small that is" in outcome.detail


def test_small_exponentials_are_no_zeros(builds: Path, scratch: Path) -> None:
    outcome = exponentials(builds, "x[i] < 20.0f ? 0.0f : expf(x[i])")
    assert outcome.kind == "incorrect"
    assert "however small that is" in outcome.detail


@pytest.mark.parametrize(
    "result",
    [
        another("(1.0f - 2.0f / (expf(2.0f * x[i * d + j]) + 1.0f)) * scale[j]"),
        "scale[j] < 1.2e-38f ? 0.0f : tanhf(x[i * d + j]) * scale[j]",
    ],
    ids=["another formula", "denormals flushed"],
)
def test_another_way_to_do_it_is_right(result: str, builds: Path, scratch: Path) -> None:
    assert isinstance(channels(builds, result), Passed)


def test_another_exponential_is_right(builds: Path, scratch: Path) -> None:
    assert isinstance(exponentials(builds, "expf(0.5f * x[i]) * expf(0.5f * x[i])"), Passed)
