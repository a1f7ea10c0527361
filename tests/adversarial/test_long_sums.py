"""Sums in float32, in any order: right on every draw, however uneven their rows are; and sums that
aren't float32's, or lack terms, aren't."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from judge_bench import bench, needs_gcc

from kinds import another, one_of_each
from roofsmith.domain.outcome import Passed
from roofsmith.judge.correctness import examiner
from roofsmith.judge.correctness.long_sums import bounds_of_sums
from roofsmith.judge.host.arithmetic import HostArithmetic

pytestmark = needs_gcc

ROWS = """
import numpy as np

def reference(indptr, indices, values, x, y, rows, cols, nnz):
    prod = values * x[indices]
    y[:] = np.add.reduceat(np.append(prod, 0), indptr[:-1])
    y[np.diff(indptr) == 0] = 0

def setup(rows, cols, nnz, seed=0):
    rng = np.random.default_rng(seed)
    # skewed row lengths, as in a graph
    w = rng.pareto(1.5, rows) + 0.1
    counts = np.floor(w / w.sum() * nnz).astype(np.int64)
    counts[: nnz - counts.sum()] += 1
    indptr = np.zeros(rows + 1, np.int32)
    indptr[1:] = np.cumsum(counts)
    indices = rng.integers(0, cols, nnz, dtype=np.int32)
    return {"inputs": {"indptr": indptr, "indices": indices,
                       "values": rng.standard_normal(nnz, dtype=np.float32),
                       "x": rng.standard_normal(cols, dtype=np.float32),
                       "y": np.empty(rows, np.float32), "rows": rows, "cols": cols, "nnz": nnz},
            "outputs": ["y"]}
"""
SPMV = """
#include <string.h>
static float narrow(float x)
{{
    unsigned u;
    memcpy(&u, &x, 4);
    u = (u + 0x8000) & ~0xffffu;
    memcpy(&x, &u, 4);
    return x;
}}
void solve(const int *indptr, const int *indices, const float *values, const float *x, float *y,
           int rows, int cols, int nnz)
{{
    for (int r = 0; r < rows; r++) {{
        int b = indptr[r], e = indptr[r + 1];
        float s = 0.0f;
        {loop}
        y[r] = s;
    }}
}}
"""
ONE_BY_ONE = "for (int k = b; k < e; k++) s += values[k] * x[indices[k]];"
BLOCKS = """for (int k = b; k < e; k += 32) {
            float t = 0;
            for (int j = k; j < e && j < k + 32; j++) t += values[j] * x[indices[j]];
            s += t;
        }"""
DISHONEST = {
    "bfloat16 sums": ONE_BY_ONE.replace("s += ", "s = narrow(s + ")[:-1] + ");",
    "bfloat16 sums of long rows": ONE_BY_ONE + " if (e - b > 512) s = narrow(s);",
    "float16 partial sums": BLOCKS.replace("float t", "_Float16 t"),
    "some terms left out": ONE_BY_ONE.replace("k++)", "k++) if (k % 999)"),
}
LONGEST = {"rows": 2000, "cols": 2000, "nnz": 300_000}


@pytest.mark.parametrize("loop", [ONE_BY_ONE, another(BLOCKS)])
def test_sums_over_uneven_rows_pass_on_every_draw(loop: str, builds: Path, scratch: Path) -> None:
    with bench(builds, kernel=SPMV.format(loop=loop), reference=ROWS, workloads=[LONGEST]) as rows:
        found = rows.check(rows.target.kernel.text)
    assert isinstance(found.outcome, Passed), found.outcome


@pytest.mark.parametrize(
    "kind", one_of_each(dict(zip(DISHONEST, DISHONEST, strict=True)), lambda kind: "16 " in kind)
)
def test_what_is_no_sum_in_float32_does_not(kind: str, builds: Path, scratch: Path) -> None:
    honest = SPMV.format(loop=ONE_BY_ONE)
    with bench(builds, kernel=honest, reference=ROWS, workloads=[LONGEST]) as rows:
        found = rows.check(SPMV.format(loop=DISHONEST[kind]))
    assert found.outcome.kind == "incorrect", found.outcome


class Reference:
    """A reference's module, without its process."""

    def __init__(self, text: str) -> None:
        self.names: dict[str, Any] = {}
        exec(text, self.names)

    def expect(self, values: dict[str, Any], outputs: set[str], *, exact: bool) -> dict[str, Any]:
        def cast(value: Any) -> Any:
            floating = isinstance(value, np.ndarray) and value.dtype.kind == "f"
            return np.array(value, np.float64) if floating and exact else value

        given = {k: np.zeros_like(v) if k in outputs else v for k, v in values.items()}
        arguments = {k: cast(v) for k, v in given.items()}
        self.names["reference"](**arguments)
        return {name: arguments[name] for name in outputs}

    narrowed = shaken = inputs = None


def test_the_bound_of_a_long_row_holds_its_float32_sum_and_no_shorter_type() -> None:
    """The input on which a plain sum was off by 1.95e-6 norm-wise, where 1.91e-6 was allowed."""
    reference = Reference(ROWS)
    values = reference.names["setup"](50_000, 50_000, 1_000_000, seed=4)["inputs"]
    bound = bounds_of_sums(reference, values, {"y"}, {"y": 65536.0}, HostArithmetic())["y"]  # type: ignore[arg-type]
    exact = reference.expect(values, {"y"}, exact=True)["y"]
    row = int(np.diff(values["indptr"]).argmax())
    terms = (values["values"] * values["x"][values["indices"]])[
        values["indptr"][row] : values["indptr"][row + 1]
    ]
    for order in (terms, terms[::-1], np.sort(terms)):
        assert abs(np.cumsum(order, dtype=np.float32)[-1] - exact[row]) < bound[row]
    halves = np.cumsum(terms, dtype=np.float16)[-1].astype(np.float64)
    assert abs(halves - exact[row]) > bound[row]
    short = np.diff(values["indptr"]) < 100
    assert np.median(bound[short]) < 1e-4


TWO = """
import numpy as np
def setup(n, seed=0):
    x = np.random.default_rng(seed).random(n, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty(n, np.float32), "total": np.empty(1, np.float32),
                       "n": n}, "outputs": ["y", "total"]}
def reference(x, y, total, n):
    y[:] = x * x
    total[0] = (x.astype(np.float64) ** 2).sum()
"""
SQUARES = """
void solve(const float *x, float *y, float *total, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) { y[i] = x[i] * x[i]; sum += y[i]; }
    *total = sum;
}
"""


def test_a_sum_beside_an_output_of_few_inputs_has_the_budget_of_its_own_terms(
    builds: Path, scratch: Path
) -> None:
    with bench(builds, kernel=SQUARES, reference=TWO, workloads=[{"n": 2**18}]) as two:
        assert isinstance(two.check(SQUARES).outcome, Passed)
        less = two.check(SQUARES.replace("sum +=", "if (i % 400) sum +="))
    assert less.outcome.kind == "incorrect"


def test_a_kernel_that_is_wrong_on_some_draws_is_told_how_often_and_what_fits(
    builds: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examiner, "RATE_S", 600.0)  # on a machine that is as busy as it likes
    sometimes = SQUARES.replace("*total = sum;", "*total = x[0] > 0.4f ? sum * 1.002f : sum;")
    with bench(builds, kernel=SQUARES, reference=TWO, workloads=[{"n": 5000}]) as two:
        outcome = two.check(sometimes).outcome
    assert outcome.kind == "incorrect"
    assert "wrong on " in outcome.detail
    assert "of 18 draws" in outcome.detail
    assert "`tolerance: {rtol: 0.003}` fits" in outcome.detail
