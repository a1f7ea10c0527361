"""What a winner is tried on before it counts: every distribution that the operator tolerates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from judge_bench import Bench, bench, needs_gcc

from roofsmith.domain.outcome import Failure, Passed
from roofsmith.judge.correctness import examiner as module
from roofsmith.judge.correctness.examiner import Examiner
from roofsmith.judge.host.lineup import HostBench

pytestmark = needs_gcc

MAXIMUM = """
import numpy as np
def setup(rows, n, seed=0):
    x = np.random.default_rng(seed).standard_normal((rows, n), dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty(rows, np.float32), "rows": rows, "n": n},
            "outputs": ["y"]}
def reference(x, y, rows, n):
    x.max(axis=1, out=y)
"""
ROWS = """
#include <stdlib.h>
#include <string.h>
void solve(const float *x, float *y, int rows, int n) {{
    for (int r = 0; r < rows; r++) {{
        const float *row = x + (long)r * n;
        {before}
        float most = {first};
        for (int i = 0; i < n; i++) most = row[i] > most ? row[i] : most;
        y[r] = most;
    }}
}}
"""
NOW_AND_THEN = (
    "int any = 0; for (int i = 0; i < n; i++) any |= row[i] > 0;"
    " unsigned bits; memcpy(&bits, row, 4);"
)
"""Before the maximum of a row: whether it has positive numbers, and those of its first number."""
DIES = "int any = 0; for (int i = 0; i < n; i++) any |= row[i] > 0; if (!any) abort();"


def rows(first: str = "row[0]", before: str = "") -> str:
    return ROWS.format(first=first, before=before)


@pytest.fixture
def made(builds: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(module, "WINNERS_S", 600.0)  # on a machine that is as busy as it likes
    reference = {"reference": MAXIMUM, "workloads": [{"rows": 32, "n": 64}]}
    with bench(builds, kernel=rows(), **reference) as made:
        yield made


def found(made: Bench, candidate: str, incumbent: str) -> Failure | None:
    target = made.target
    examiner = Examiner(target, HostBench(made.oracle, target.tolerance, made.threads))
    against = made.built(incumbent)
    outcome, _ = examiner.examine(against, lambda share, label: None)
    assert isinstance(outcome, Passed)
    return examiner.look_further(made.built(candidate), against)


def test_a_right_one_is_right_everywhere(made: Bench) -> None:
    again = rows(first="row[n - 1]")
    assert found(made, again, rows()) is None


@pytest.mark.parametrize(
    ("wrong", "kind", "said"),
    [
        (rows(first="0"), "incorrect", "all negative|constant rows"),
        (rows(before=DIES), "crashed", "where the incumbent is right: killed by SIGABRT"),
    ],
)
def test_what_is_wrong_on_one_distribution_is_found(
    made: Bench, wrong: str, kind: str, said: str
) -> None:
    failure = found(made, wrong, rows())
    assert failure is not None
    assert failure.kind == kind
    assert re.search(said, failure.detail)


@pytest.mark.parametrize("wrong", [rows(first="0"), rows(before=DIES)])
def test_what_the_incumbent_cannot_do_is_held_against_nobody(made: Bench, wrong: str) -> None:
    assert found(made, wrong + "/* again */", wrong) is None


def test_what_the_incumbent_gets_wrong_on_that_very_draw_is_held_against_nobody(
    made: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its arithmetic fails on every other draw of a distribution; on the same ones, if it is the
    candidate's, too."""
    monkeypatch.setattr(module, "SECOND_LOOKS", 0)
    unsteady = rows(first="!any && r == 0 && bits & 1 ? 0 : row[0]", before=NOW_AND_THEN)
    assert [found(made, unsteady + "/* again */", unsteady) for _ in range(4)] == [None] * 4
    another = rows(first="!any ? 0 : row[0]", before=NOW_AND_THEN)
    seen = (found(made, another, unsteady) for _ in range(8))
    assert any(seen), "another arithmetic's failures still count"
