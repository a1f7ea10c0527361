"""Integers and accuracy that honest arithmetic leaves open, and what it doesn't: real C kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from judge_bench import Bench, bench, needs_gcc

from kinds import another
from roofsmith.domain.outcome import Outcome, Passed
from roofsmith.errors import BadReferenceError
from roofsmith.judge.correctness.examiner import Examiner
from roofsmith.judge.host.lineup import HostBench
from roofsmith.ports import Scope
from roofsmith.testing.observer import SilentObserver

pytestmark = needs_gcc

QUANTISE = """
import numpy as np
def setup(rows, n, seed=0):
    x = np.random.default_rng(seed).standard_normal((rows, n), dtype=np.float32)
    q, s = np.empty((rows, n), np.int8), np.empty(rows, np.float32)
    return {"inputs": {"x": x, "q": q, "s": s, "rows": rows, "n": n}, "outputs": ["q", "s"]}
def reference(x, q, s, rows, n):
    s[:] = np.abs(x).max(axis=1) / 127
    q[:] = np.rint(x / s[:, None]).astype(np.int8)
"""
QUANTISED = """
#include <math.h>
#include <stdint.h>
#include <string.h>
static float narrow(float x) {{ {narrow} return x; }}
void solve(const float *x, int8_t *q, float *s, int rows, int n) {{
    for (int r = 0; r < rows; r++, x += n, q += n) {{
        float most = 0;
        for (int i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
        s[r] = most / 127;
        float inverse = 127 / most;
        for (int i = 0; i < n; i++) q[i] = (int8_t)lrintf({value});
    }}
    {after}
}}
"""
BF16 = "unsigned u; memcpy(&u, &x, 4); u = (u + 0x8000) & ~0xffffu; memcpy(&x, &u, 4);"
DIMS = {"rows": 1024, "n": 1024}
"""A million elements: about one of them lies beside a half in every draw."""
FEWER = {"rows": 256, "n": 1024}
"""Moved inputs still tip a few of them, so one that is wrong isn't told by its number."""


def quantised(value: str = "x[i] / s[r]", *, narrow: str = "", after: str = "") -> str:
    return QUANTISED.format(value=value, narrow=narrow, after=after)


@pytest.fixture(scope="module")
def quantise(builds: Path, scratch: Path) -> Iterator[Bench]:
    with bench(builds, kernel=quantised(), reference=QUANTISE, workloads=[DIMS]) as made:
        yield made


@pytest.fixture(scope="module")
def quantise_fewer(builds: Path, scratch: Path) -> Iterator[Bench]:
    with bench(builds, kernel=quantised(), reference=QUANTISE, workloads=[FEWER]) as made:
        yield made


@pytest.mark.parametrize("value", ["x[i] * inverse", another("x[i] / s[r]")])
def test_integers_that_rounding_decides_are_held_against_nobody(
    value: str, quantise: Bench
) -> None:
    outcome = quantise.check(quantised(value)).outcome
    assert isinstance(outcome, Passed), outcome.detail


@pytest.mark.parametrize(
    "wrong",
    [
        quantised(after="q[-1] += q[-1] > 0 ? -1 : 1;"),
        quantised("x[i] / s[r] * (1 + 1e-5f)"),
        another(quantised("narrow(x[i]) / s[r]", narrow=BF16)),
        another(quantised("truncf(x[i] / s[r])")),
    ],
    ids=["one element", "a scale that is off", "bfloat16", "truncated"],
)
def test_integers_that_it_does_not_decide_are_wrong(wrong: str, quantise_fewer: Bench) -> None:
    outcome = quantise_fewer.check(wrong).outcome
    assert getattr(outcome, "reason", None) in ("wrong_output", "skipped_work"), outcome.detail


ORDER = """
import numpy as np
def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    return {"inputs": {"x": x, "a": np.empty(n, np.int32), "n": n}, "outputs": ["a"]}
def reference(x, a, n):
    a[:] = np.argsort(x, kind="stable")
"""
ORDERED = """
#include <stdlib.h>
#include <string.h>
typedef struct {{ float key; int at; }} Entry;
static int compare(const void *a, const void *b) {{
    const Entry *p = a, *q = b;
    return p->key < q->key ? -1 : p->key > q->key ? 1 : p->at - q->at;
}}
void solve(const float *x, int *a, int n) {{
    Entry *all = malloc(n * sizeof *all);
    for (int i = 0; i < n; i++) {{
        unsigned u; memcpy(&u, x + i, 4); u &= {mask}; memcpy(&all[i].key, &u, 4); all[i].at = i;
    }}
    qsort(all, n, sizeof *all, compare);
    for (int i = 0; i < n; i++) a[i] = all[i].at;
    free(all);
}}
"""


def test_what_only_compares_inputs_gets_no_room(builds: Path, scratch: Path) -> None:
    """Among so many numbers a dozen pairs differ in the last bit alone: none in e^-24 of checks."""
    exact = ORDERED.format(mask="~0u")
    with bench(builds, kernel=exact, reference=ORDER, workloads=[{"n": 60_000}]) as made:
        assert isinstance(made.check(exact).outcome, Passed)
        outcome = made.check(ORDERED.format(mask="~1u")).outcome
        assert getattr(outcome, "reason", None) == "wrong_output"


ADD_TO = """
import numpy as np
def setup(n, seed=0):
    x, y = np.random.default_rng(seed).standard_normal((2, n), dtype=np.float32)
    return {"inputs": {"x": x, "y": y, "n": n}, "outputs": ["y"]}
def reference(x, y, n):
    VALUE
"""
WRITES = (
    "void solve(const float *x, float *y, int n) {{ for (int i = 0; i < n; i++) y[i] {} x[i]; }}"
)


def test_what_the_reference_adds_to_holds_what_setup_gives(builds: Path, scratch: Path) -> None:
    reference, right = ADD_TO.replace("VALUE", "y += x"), WRITES.format("+=")
    with bench(builds, kernel=right, reference=reference, workloads=[{"n": 64}]) as made:
        assert isinstance(made.check(right).outcome, Passed)
        wrong = made.check(WRITES.format("=")).outcome
        assert getattr(wrong, "reason", None) == "wrong_output"


def test_an_output_that_the_reference_forgets_is_no_input(builds: Path, scratch: Path) -> None:
    with (
        bench(builds, reference=ADD_TO.replace("VALUE", "pass"), workloads=[{"n": 64}]) as made,
        pytest.raises(BadReferenceError, match="left all of output 'y' unwritten"),
    ):
        made.check(made.target.kernel.text)


PRODUCT = """
import numpy as np
def setup(n, seed=0):
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    return {"inputs": {"a": a, "b": b, "c": np.empty_like(a), "n": n}, "outputs": ["c"]}
def reference(a, b, c, n):
    np.matmul(a, b, out=c)
"""
PLAIN = """
void solve(const float *a, const float *b, float *c, int n) {
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {
        double sum = 0;
        for (int k = 0; k < n; k++) sum += (double)a[i * n + k] * b[k * n + j];
        c[i * n + j] = (float)sum;
    }
}
"""
IN_PAIRS = """
void solve(const float *a, const float *b, float *c, int n) {
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {
        float of_a = 0, of_b = 0, sum = 0;
        for (int k = 0; k < n; k += 2) {
            float x = a[i * n + k], y = a[i * n + k + 1];
            float u = b[k * n + j], v = b[(k + 1) * n + j];
            of_a += x * y;
            of_b += u * v;
            sum += (x + v) * (y + u);
        }
        c[i * n + j] = sum - of_a - of_b;
    }
}
"""
"""Winograd's inner product: exact in relation to the largest numbers, not to each."""


def examined(made: Bench, text: str, times: int) -> list[Outcome]:
    """A candidate's examinations as often, after its incumbent's, and those of its timed calls."""
    incumbent, candidate = made.built(made.target.kernel.text), made.built(text)
    examiner = Examiner(made.target, HostBench(made.oracle, made.target.tolerance, 1))
    assert isinstance(examiner.examine(incumbent, lambda *_: None)[0], Passed)
    quick = Scope(made.classes, quick=True)
    timed = made.judge().compare(candidate, incumbent, SilentObserver(), quick)
    again = [examiner.examine(candidate, lambda *_: None, incumbent)[0] for _ in range(times)]
    return [timed.outcome, *again]


def test_products_with_another_algebra_are_held_against_nobody(builds: Path, scratch: Path) -> None:
    with bench(builds, kernel=PLAIN, reference=PRODUCT, workloads=[{"n": 64}]) as made:
        outcomes = examined(made, IN_PAIRS, times=5)
    refused = [found.detail for found in outcomes if not isinstance(found, Passed)]
    # There all errors point one way: one examination in 25 finds more than a norm may be off by.
    assert all("constant rows" in detail for detail in refused), refused
    assert len(refused) < 3


VARIANCE = """
import numpy as np
def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32) + np.float32(3)
    return {"inputs": {"x": x, "y": np.empty(2, np.float32), "n": n}, "outputs": ["y"]}
def reference(x, y, n):
    y[:] = x.mean(), x.var()
"""
TWO_PASSES = """
typedef TYPE real;
void solve(const float *x, float *y, int n) {
    real sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    real mean = sum / n;
    for (int i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    y[0] = (float)mean; y[1] = (float)(squares / n);
}
"""


def test_long_sums_in_float_may_follow_sums_in_double(builds: Path, scratch: Path) -> None:
    """Beside a few huge summands small ones round to nothing, and equal ones the same way."""
    wide, own = TWO_PASSES.replace("TYPE", "double"), TWO_PASSES.replace("TYPE", "float")
    with bench(builds, kernel=wide, reference=VARIANCE, workloads=[{"n": 50_001}]) as made:
        for outcome in examined(made, own, times=3):
            assert isinstance(outcome, Passed), outcome.detail


ELEMENTWISE = """
import numpy as np
def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    return {{"inputs": {{"x": x, "y": np.empty_like(x), "n": n}}, "outputs": ["y"]}}
def reference(x, y, n):
    y[:] = {value}
"""
COPY = "void solve(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = x[i]; }"


@pytest.mark.parametrize(
    ("value", "jumps"),
    [
        ("np.tanh(x)", ()), another("np.sqrt(np.abs(x))", ()), another("np.maximum(x, 0)", ()),
        ("np.sort(x)", ()), ("x > 0", ()), ("np.rint(x * 16) / 16", ("y",)),
        another("x > 0.5", ("y",)),
    ],
)  # fmt: skip
def test_only_where_outputs_leap_wrong_elements_are_looked_into_by_dozens_of_runs(
    value: str, jumps: tuple[str, ...], builds: Path, scratch: Path
) -> None:
    reference = ELEMENTWISE.format(value=value)
    with bench(builds, kernel=COPY, reference=reference, workloads=[{"n": 4096}]) as made:
        assert made.oracle.tolerated().jumps == jumps
