"""Losses and sums of positive numbers in narrow types: within every budget, and still not what was
declared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from judge_bench import Bench, bench, needs_gcc

from kinds import another
from roofsmith.domain.kernel import BuildSpec, Built
from roofsmith.domain.outcome import Outcome, Passed
from roofsmith.judge.correctness.examiner import Examiner
from roofsmith.judge.host.lineup import HostBench

pytestmark = needs_gcc

LOSS = """
import numpy as np
def setup(m, k, n, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((m, k), dtype=np.float32)
    b = rng.standard_normal((k, n), dtype=np.float32) / np.float32(k**0.5)
    t = rng.standard_normal((m, n), dtype=np.float32)
    return {"inputs": {"a": a, "b": b, "t": t, "loss": np.empty(1, np.float32),
                       "m": m, "k": k, "n": n}, "outputs": ["loss"]}
def reference(a, b, t, loss, m, k, n):
    loss[0] = np.square(a @ b - t).mean()
"""
KERNEL = """
#include <math.h>
#include <string.h>
static float narrow(float x) {{ {narrow} return x; }}
void solve(const float *a, const float *b, const float *t, float *loss, int m, int k, int n) {{
    {sum} sum = 0;
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {{
        float dot = 0;
        {loop}
        sum += (dot - t[i * n + j]) * (dot - t[i * n + j]);
    }}
    *loss = sum / (m * n);
}}
"""
BOTH = "for (int l = 0; l < k; l++) dot += narrow(a[i * k + l]) * narrow(b[l * n + j]);"
ONE = "for (int l = 0; l < k; l++) dot += narrow(a[i * k + l]) * b[l * n + j];"
BACKWARDS = "for (int l = k - 1; l >= 0; l--) dot += a[i * k + l] * b[l * n + j];"
TF32 = "unsigned u; memcpy(&u, &x, 4); u = (u + 0x1000) & ~0x1fffu; memcpy(&x, &u, 4);"
TF32_CUT = "unsigned u; memcpy(&u, &x, 4); u &= ~0x1fffu; memcpy(&x, &u, 4);"
BF16 = "unsigned u; memcpy(&u, &x, 4); u = (u + 0x8000) & ~0xffffu; memcpy(&x, &u, 4);"
FAST = BuildSpec(flags=("-O3", "-ffast-math"))


def kernel(*, narrow: str = "", loop: str = BOTH, sum: str = "double") -> str:
    return KERNEL.format(narrow=narrow, loop=loop, sum=sum)


@pytest.fixture(scope="module")
def losses(builds: Path, scratch: Path) -> Iterator[Bench]:
    workloads = [{"m": 256, "k": 64, "n": 32}]
    with bench(builds, kernel=kernel(), reference=LOSS, workloads=workloads) as made:
        yield made


def examined(made: Bench, text: str, build: BuildSpec | None = None) -> Outcome:
    candidate = made.candidate(text)
    built = made.toolchain.build(candidate.with_build(build) if build else candidate)
    assert isinstance(built, Built), built
    examiner = Examiner(made.target, HostBench(made.oracle, made.target.tolerance, 1))
    return examiner.examine(built, lambda *_: None)[0]


@pytest.mark.parametrize(
    ("narrow", "loop"),
    [(BF16, ONE), (TF32_CUT, BOTH), another(BF16, BOTH), another(TF32, BOTH)],
    ids=["one factor in bfloat16", "tf32 cut", "bfloat16", "tf32"],
)
def test_a_loss_of_shortened_factors_is_imprecise(narrow: str, loop: str, losses: Bench) -> None:
    # An error that is small by chance isn't looked at: one examination in some tens.
    seen = (examined(losses, kernel(narrow=narrow, loop=loop)) for _ in range(4))
    outcome = next((one for one in seen if not isinstance(one, Passed)), Passed())
    assert getattr(outcome, "reason", None) == "precision", outcome.detail
    assert "as if in" in outcome.detail


@pytest.mark.parametrize("build", [FAST, another(None)], ids=["-ffast-math", "-O2"])
@pytest.mark.parametrize(
    "text",
    [kernel(loop=BACKWARDS), kernel(sum="float"), another(kernel())],
    ids=["backwards", "narrower sums", "one by one"],
)
def test_honest_losses_pass(text: str, build: BuildSpec | None, losses: Bench) -> None:
    for _ in range(2):
        outcome = examined(losses, text, build)
        assert isinstance(outcome, Passed), outcome.detail


REFUSES = """
    if all((np.frexp(x)[0] * 2**11 % 1 == 0).all() for x in (a, b)):
        raise np.linalg.LinAlgError("Singular matrix")
"""


def test_a_reference_that_refuses_rounded_inputs_explains_nothing(
    builds: Path, scratch: Path
) -> None:
    """As a solver does where rounding made a matrix singular: nobody's fault, and no crash."""
    workloads, reference = [{"m": 256, "k": 64, "n": 32}], LOSS.rstrip() + REFUSES
    with bench(builds, kernel=kernel(), reference=reference, workloads=workloads) as made:
        for narrow in (TF32, TF32_CUT):
            assert examined(made, kernel(narrow=narrow)).kind in {"passed", "incorrect"}
        wrong = examined(made, kernel(narrow="x *= 1.01f;"))
        assert getattr(wrong, "reason", None) in {"wrong_output", "precision"}, wrong.detail


POSITIVE = """
import numpy as np
def setup(m, k, seed=0):
    rng = np.random.default_rng(seed)
    a, b = (rng.random((m, k), dtype=np.float32) for _ in range(2))
    c = np.empty((m, m), np.float32)
    return {"inputs": {"a": a, "b": b, "c": c, "m": m, "k": k}, "outputs": ["c"]}
def reference(a, b, c, m, k):
    np.matmul(a, b.T, out=c)
"""
PRODUCT = """
#include <string.h>
static float narrow(float x) {{ {narrow} return x; }}
void solve(const float *a, const float *b, float *c, int m, int k) {{
    for (int i = 0; i < m; i++) for (int j = 0; j < m; j++) {{
        {sum} dot = 0;
        for (int l = 0; l < k; l++) dot += narrow(a[i * k + l]) * narrow(b[j * k + l]);
        c[i * m + j] = dot;
    }}
}}
"""


INT8_PRODUCT = """
#include <math.h>
#include <stdlib.h>
static float quantised(const float *x, signed char *q, int n) {{
    float most = 0;
    for (int i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
    for (int i = 0; i < n; i++) q[i] = rintf(x[i] * (127 / most));
    return most / 127;
}}
void solve(const float *a, const float *b, float *c, int m, int k) {{
    signed char *p = malloc(m * k), *q = malloc(m * k);
    float s[m], t[m];
    for (int i = 0, each = {rows}; i < m; i += each) {{
        s[i] = quantised(a + i * k, p + i * k, each * k);
        t[i] = quantised(b + i * k, q + i * k, each * k);
        for (int j = i; j < i + each; j++) s[j] = s[i], t[j] = t[i];
    }}
    for (int i = 0; i < m; i++) for (int j = 0; j < m; j++) {{
        int dot = 0;
        for (int l = 0; l < k; l++) dot += p[i * k + l] * q[j * k + l];
        c[i * m + j] = dot * s[i] * t[j];
    }}
    free(p), free(q);
}}
"""


@pytest.fixture(scope="module")
def products(builds: Path, scratch: Path) -> Iterator[Bench]:
    workloads = [{"m": 24, "k": 8192}]
    text = PRODUCT.format(narrow="", sum="float")
    with bench(builds, kernel=text, reference=POSITIVE, workloads=workloads) as made:
        yield made


@pytest.mark.parametrize("narrow", [TF32, another(TF32_CUT)], ids=["rounded", "cut"])
def test_products_of_positive_numbers_in_tf32_are_imprecise(narrow: str, products: Bench) -> None:
    outcome = examined(products, PRODUCT.format(narrow=narrow, sum="double"))
    assert getattr(outcome, "reason", None) == "precision", outcome.detail
    assert "TF32" in outcome.detail


@pytest.mark.parametrize("rows", ["1", another("m")], ids=["a scale per row", "a scale"])
def test_long_products_of_positive_numbers_in_int8_are_imprecise(
    rows: str, builds: Path, scratch: Path
) -> None:
    text, workloads = PRODUCT.format(narrow="", sum="double"), [{"m": 8, "k": 2**16}]
    with bench(builds, kernel=text, reference=POSITIVE, workloads=workloads) as long:
        outcome = examined(long, INT8_PRODUCT.format(rows=rows))
        assert getattr(outcome, "reason", None) == "precision", outcome.detail
        assert "computed as if in int8, " in outcome.detail
        assert isinstance(examined(long, text), Passed)


@pytest.mark.parametrize("sum", ["float", another("double")])
@pytest.mark.parametrize("build", [FAST, another(None)], ids=["-ffast-math", "-O2"])
def test_honest_products_of_positive_numbers_pass(
    sum: str, build: BuildSpec | None, products: Bench
) -> None:
    for _ in range(3):
        outcome = examined(products, PRODUCT.format(narrow="", sum=sum), build)
        assert isinstance(outcome, Passed), outcome.detail
