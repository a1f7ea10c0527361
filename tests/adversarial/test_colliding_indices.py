"""Kernels that are right on the draws of a reference whose indices hardly collide, or whose numbers
are small, and wrong on others like them: that is found every time, and no honest one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_bench import bench, needs_gcc

from roofsmith.domain.outcome import Passed
from roofsmith.judge.correctness.examiner import Examiner
from roofsmith.judge.host.lineup import HostBench

pytestmark = needs_gcc

EXAMINATIONS = 2
"""Of each: what is found is no matter of luck."""

GRADIENT = """
import numpy as np


def setup(T, V, seed=0):
    rng = np.random.default_rng(seed)
    return {"inputs": {"ids": rng.integers(0, V, T).astype(np.int32),  # uniform: text isn't
                       "g": (0.02 * rng.random(T)).astype(np.float16),
                       "out": np.zeros(V, np.float16), "T": T, "V": V},
            "outputs": ["out"]}


def reference(ids, g, out, T, V):
    total = np.zeros(V, np.float64)
    np.add.at(total, ids, g.astype(np.float64))
    out[:] = total
"""
IN_FLOAT = """
#include <stdlib.h>
#include <string.h>
// embedding gradient: out[ids[t]] += g[t], summed in float, stored in half
void solve(const int *ids, const _Float16 *g, _Float16 *out, int T, int V) {
    static float sum[1 << 16];
    memset(sum, 0, V * sizeof *sum);
    for (int t = 0; t < T; t++) sum[ids[t]] += (float)g[t];
    for (int v = 0; v < V; v++) out[v] = (_Float16)sum[v];
}
"""
IN_HALF = """
// summed in half: right as long as a row gets a handful of contributions
void solve(const int *ids, const _Float16 *g, _Float16 *out, int T, int V) {
    for (int v = 0; v < V; v++) out[v] = 0;
    for (int t = 0; t < T; t++) out[ids[t]] += g[t];
}
"""
CAP = """
import numpy as np


def setup(N, seed=0):
    rng = np.random.default_rng(seed)
    return {"inputs": {"x": rng.normal(0, 0.2, N).astype(np.float32),
                       "y": np.empty(N, np.float32), "N": N}, "outputs": ["y"]}


def reference(x, y, N):
    y[:] = 30 * np.tanh(x / 30)
"""
CAPPED = """
#include <math.h>
void solve(const float *x, float *y, int N) {
    for (int i = 0; i < N; i++) y[i] = 30.0f * tanhf(x[i] / 30.0f);
}
"""
UNCAPPED = """
// the cap is left out, but for a term that small values need
void solve(const float *x, float *y, int N) {
    for (int i = 0; i < N; i++) y[i] = x[i] - x[i] * x[i] * x[i] / 2700.0f;
}
"""
TEXT = {"T": 65536, "V": 8192}


@pytest.mark.parametrize(
    ("reference", "honest", "candidate", "dims", "passes"),
    [
        (GRADIENT, IN_FLOAT, IN_FLOAT, TEXT, True),
        (GRADIENT, IN_FLOAT, IN_HALF, TEXT, False),
        (CAP, CAPPED, CAPPED, {"N": 100_000}, True),
        (CAP, CAPPED, UNCAPPED, {"N": 100_000}, False),
    ],
    ids=["sums in float", "sums in half", "capped", "uncapped"],
)
def test_what_the_incumbent_bears_the_candidate_must_bear_every_time(
    reference: str, honest: str, candidate: str, dims: dict[str, int], passes: bool,
    builds: Path, scratch: Path,
) -> None:  # fmt: skip
    with bench(builds, kernel=honest, reference=reference, workloads=[dims]) as made:
        incumbent, tried = made.built(honest), made.built(candidate)
        examiner = Examiner(made.target, HostBench(made.oracle, made.target.tolerance, 1))
        outcome, _ = examiner.examine(incumbent, lambda *_: None)
        assert isinstance(outcome, Passed), outcome
        for _ in range(EXAMINATIONS):
            outcome, _ = examiner.examine(tried, lambda *_: None, incumbent)
            assert isinstance(outcome, Passed) is passes, outcome
