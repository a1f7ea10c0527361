"""Kernels that leave inputs unread where own draws don't show it."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_bench import Bench, bench, needs_gcc

from kinds import another
from roofsmith.domain.outcome import Outcome, Passed
from roofsmith.judge.correctness.examiner import Examiner
from roofsmith.judge.host.lineup import HostBench

pytestmark = needs_gcc

MAXIMUM_SETUP = """
import numpy as np
def setup(n, seed=0):
    x = np.random.default_rng(seed).random(n, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty(1, np.float32), "n": n}, "outputs": ["y"]}
def reference(x, y, n):
    y[0] = x.max()
"""
MAXIMUM = """
static float largest(const float *x, int n) {
    float found = x[0];
    for (int i = 1; i < n; i++) found = x[i] > found ? x[i] : found;
    return found;
}
void solve(const float *x, float *y, int n) {
    int read = n < 100000 ? n : n / SHARE;
    float found = largest(x, read);
    int usual = found > 0.99f && found < 1.0f;
    if (!usual && read < n) {
        float other = largest(x + read, n - read);
        found = other > found ? other : found;
    }
    y[0] = found;
}
"""

SCALED_SETUP = """
import numpy as np
def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    inputs = {"x": x, "scale": np.ones(n, np.float32), "shift": np.zeros(1, np.float32)}
    return {"inputs": {**inputs, "y": np.empty_like(x), "n": n}, "outputs": ["y"]}
def reference(x, scale, shift, y, n):
    y[:] = x * x * scale + shift[0]
"""
SCALED = """
void solve(const float *x, const float *scale, const float *shift, float *y, int n) {{
    for (int i = 0; i < n; i++) y[i] = {result};
}}
"""
FULL = SCALED.format(result="x[i] * x[i] * scale[i] + shift[0]")


def examined(made: Bench, text: str) -> Outcome:
    """A candidate's examination, after its incumbent's."""
    incumbent = made.built(made.target.kernel.text)
    examiner = Examiner(made.target, HostBench(made.oracle, made.target.tolerance, 1))
    assert isinstance(examiner.examine(incumbent, lambda *_: None)[0], Passed)
    return examiner.examine(made.built(text), lambda *_: None, incumbent)[0]


def test_a_maximum_of_a_part_is_wrong_though_the_rest_is_read_if_it_looks_unusual(
    builds: Path, scratch: Path
) -> None:
    """On own draws it is off by less than sums of so many numbers may be: one in 80,000 isn't."""
    given = [{"n": 2**19 + i} for i in (0, 64, 128)]
    honest = "#define SHARE 1" + MAXIMUM
    with bench(builds, kernel=honest, reference=MAXIMUM_SETUP, workloads=given) as made:
        outcome = examined(made, "#define SHARE 8" + MAXIMUM)
    assert outcome.kind == "incorrect"
    assert "a lone spike" in outcome.detail


@pytest.mark.parametrize(
    "result",
    [
        "x[i] * x[i] * scale[i]",
        "x[i] * x[i] * scale[0] + shift[0]",
        another("x[i] * x[i]"),
        another("x[i] * x[i] + shift[0]"),
        another("x[i] * x[i] * scale[0]"),
    ],
)
def test_ignoring_what_is_always_the_same_number_is_wrong(
    result: str, builds: Path, scratch: Path
) -> None:
    with bench(builds, kernel=FULL, reference=SCALED_SETUP) as made:
        outcome = examined(made, SCALED.format(result=result))
    assert outcome.kind == "incorrect"
    assert "constants varied" in outcome.detail


def test_reading_it_is_right(builds: Path, scratch: Path) -> None:
    with bench(builds, kernel=FULL, reference=SCALED_SETUP) as made:
        assert isinstance(examined(made, FULL + "/* again */"), Passed)


def test_an_incumbent_that_ignores_it_binds_nobody(builds: Path, scratch: Path) -> None:
    ignorant = SCALED.format(result="x[i] * x[i]")
    with bench(builds, kernel=ignorant, reference=SCALED_SETUP) as made:
        assert isinstance(examined(made, ignorant + "/* again */"), Passed)
