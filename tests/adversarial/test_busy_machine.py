"""Real kernels beside processes that compute: disturbed pairs are bounds, to nobody's gain."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from judge_bench import Bench, bench, needs_gcc

from roofsmith.analysis.bounds import bounds_of, is_bounded
from roofsmith.domain.kernel import BuildSpec
from roofsmith.judge.timing.processor_time import Spent, spent_at_stop

pytestmark = needs_gcc

LONG = """
#include <unistd.h>
@BEFORE@
static volatile float sink;
static void spend(int rounds) {
    float sum = 0;
    for (int i = 0; i < rounds; i++) sum += (float)i * 0.5f;
    sink = sum;
}
void solve(const float *x, float *y, int n) {
    @WORK@
    for (int i = 0; i < n; i++) y[i] = x[i] * x[i] + 1.0f;
}
"""
SLICES = 20_000_000
"""Rounds that take far longer than the scheduler lets a process run while others wait."""


def kernel(work: str, before: str = "") -> str:
    return LONG.replace("@WORK@", work).replace("@BEFORE@", before)


SERIAL = kernel(f"spend({SLICES});")
CROWDED = kernel(
    f"#pragma omp parallel num_threads(8)\n    spend({SLICES} / 4);", "#include <omp.h>"
)
"""Twice the work, by threads that keep one another waiting."""


@pytest.fixture(scope="module")
def long_calls(builds: Path) -> Iterator[Bench]:
    build = BuildSpec(flags=("-O1", "-fopenmp"))
    with bench(builds, kernel=SERIAL, workloads=({"n": 1000},), build=build) as made:
        yield made


@contextmanager
def others() -> Iterator[None]:
    """A process that computes on every processor."""
    burners = [
        subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
        for _ in os.sched_getaffinity(0)
    ]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def test_pairs_beside_others_bound_the_ratio_and_count(long_calls: Bench) -> None:
    with others():
        found = long_calls.compare(SERIAL + "// the same\n")
    assert found.verdict not in ("faster", "rejected")
    assert not [pair.void for pair in found.samples if pair.void]
    waited = [pair for pair in found.samples if is_bounded(pair)]
    assert waited
    for pair in waited:
        low, middle, high = bounds_of(pair)
        assert low <= middle <= high
    assert any("threads waited" in note for note in found.notes)


def test_threads_that_keep_one_another_waiting_gain_nothing(long_calls: Bench) -> None:
    found = long_calls.compare(CROWDED)
    assert found.verdict != "faster"
    with others():
        assert long_calls.compare(CROWDED + "// beside others\n").verdict != "faster"


def test_a_process_that_yields_and_sleeps_is_not_lost_to_others() -> None:
    """Its time is what it ran and slept: only waiting is taken off."""
    text = "import time, os, signal; os.kill(os.getpid(), signal.SIGSTOP); time.sleep(0.2);"
    text += "os.kill(os.getpid(), signal.SIGSTOP)"
    with subprocess.Popen([sys.executable, "-S", "-c", text]) as process:
        begin = _stopped(process)
        process.send_signal(18)
        had = begin.until(_stopped(process), 2, is_alone=True)
        process.kill()
    assert had.own_s is not None
    assert had.own_s >= 0.2


def _stopped(process: subprocess.Popen[bytes]) -> Spent:
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    return spent_at_stop(process.pid)
