"""What inputs, guard bands and the comparison find out, each by its own name: real C kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from weakref import WeakKeyDictionary

import pytest
from judge_bench import HONEST, Bench, bench, needs_gcc

from kinds import another
from roofsmith.domain.kernel import BuildSpec, Built
from roofsmith.domain.outcome import Incorrect, Outcome, Passed
from roofsmith.judge.correctness import examiner as module
from roofsmith.judge.correctness.examiner import Examiner
from roofsmith.judge.host.lineup import HostBench

pytestmark = needs_gcc

GEMM_SETUP = """
import numpy as np
def setup(m, k, n, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((m, k), dtype=np.float32)
    b = rng.standard_normal((k, n), dtype=np.float32)
    c = np.empty((m, n), np.float32)
    return {"inputs": {"a": a, "b": b, "c": c, "m": m, "k": k, "n": n}, "outputs": ["c"]}
def reference(a, b, c, m, k, n):
    np.matmul(a, b, out=c)
"""
GEMM = """
#include <string.h>
static float narrow(float x) {{ {narrow} return x; }}
void solve(const float *a, const float *b, float *c, int m, int k, int n) {{
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {{
        {type} sum = 0;
        {loop}
        c[i * n + j] = sum;
    }}
}}
"""
FORWARD = "for (int l = 0; l < k; l++) sum += narrow(a[i * k + l]) * narrow(b[l * n + j]);"
BACKWARD = "for (int l = k - 1; l >= 0; l--) sum += a[i * k + l] * b[l * n + j];"
SPLIT = (
    "for (int part = 0; part < 4; part++) { float some = 0;"
    " for (int l = part; l < k; l += 4) some += a[i * k + l] * b[l * n + j]; sum += some; }"
)
TF32 = "unsigned u; memcpy(&u, &x, 4); u = (u + 0x1000) & ~0x1fffu; memcpy(&x, &u, 4);"
TF32_CUT = "unsigned u; memcpy(&u, &x, 4); u &= ~0x1fffu; memcpy(&x, &u, 4);"
BF16 = "unsigned u; memcpy(&u, &x, 4); u = (u + 0x8000) & ~0xffffu; memcpy(&x, &u, 4);"


def gemm(*, narrow: str = "", loop: str = FORWARD, type: str = "float") -> str:
    return GEMM.format(narrow=narrow, loop=loop, type=type)


SOFTMAX_SETUP = """
import numpy as np
def setup(rows, n, seed=0):
    x = np.random.default_rng(seed).standard_normal((rows, n), dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty_like(x), "rows": rows, "n": n}, "outputs": ["y"]}
def reference(x, y, rows, n):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    y[:] = e / e.sum(axis=1, keepdims=True)
"""
SOFTMAX = """
#include <math.h>
#include <string.h>
void solve(const float *x, float *y, int rows, int n) {
    for (int r = 0; r < rows; r++, x += n, y += n) {
        float most = x[0], sum = 0;
        for (int i = 1; i < n; i++) if (x[i] > most) most = x[i];
        for (int i = 0; i < n; i++) sum += y[i] = expf(x[i] - most);
        for (int i = 0; i < n; i++) { float v = y[i] / sum; /* store */ y[i] = v; }
    }
}
"""
ONLINE = """
#include <math.h>
void solve(const float *x, float *y, int rows, int n) {
    for (int r = 0; r < rows; r++, x += n, y += n) {
        float most = -INFINITY, sum = 0;
        for (int i = 0; i < n; i++) {
            float next = fmaxf(most, x[i]);
            sum = sum * expf(most - next) + expf(x[i] - next);
            most = next;
        }
        for (int i = 0; i < n; i++) y[i] = expf(x[i] - most) / sum;
    }
}
"""
WITHOUT_MAXIMUM = """
#include <math.h>
void solve(const float *x, float *y, int rows, int n) {
    for (int r = 0; r < rows; r++, x += n, y += n) {
        float sum = 0;
        for (int i = 0; i < n; i++) sum += y[i] = expf(x[i]);
        for (int i = 0; i < n; i++) y[i] /= sum;
    }
}
"""
STORED_NARROW = "unsigned u; memcpy(&u, &v, 4); u = (u + 0x8000) & ~0xffffu; memcpy(&v, &u, 4);"


@pytest.fixture(scope="module")
def products(builds: Path, scratch: Path) -> Iterator[Bench]:
    workloads = [{"m": 9, "k": 96, "n": 15}, {"m": 8, "k": 128, "n": 16}]
    with bench(builds, kernel=gemm(), reference=GEMM_SETUP, workloads=workloads) as made:
        yield made


@pytest.fixture(scope="module")
def softmax(builds: Path, scratch: Path) -> Iterator[Bench]:
    workloads = [{"rows": 7, "n": 101}, {"rows": 4, "n": 256}]
    with bench(builds, kernel=SOFTMAX, reference=SOFTMAX_SETUP, workloads=workloads) as made:
        yield made


EXAMINERS: WeakKeyDictionary[Bench, Examiner] = WeakKeyDictionary()
"""An incumbent is examined once, as it is in a campaign."""


def examined(made: Bench, text: str, *, build: BuildSpec | None = None) -> Outcome:
    """A candidate's examination, after its incumbent's."""
    incumbent = made.built(made.target.kernel.text)
    examiner = EXAMINERS.get(made)
    if examiner is None:
        examiner = Examiner(made.target, HostBench(made.oracle, made.target.tolerance, 1))
        assert isinstance(examiner.examine(incumbent, lambda *_: None)[0], Passed)
        EXAMINERS[made] = examiner
    candidate = made.candidate(text)
    built = made.toolchain.build(candidate.with_build(build) if build else candidate)
    assert isinstance(built, Built), built
    return examiner.examine(built, lambda *_: None, incumbent)[0]


def reason(outcome: Outcome) -> str | None:
    return getattr(outcome, "reason", None)


@pytest.mark.parametrize(
    "text",
    [gemm(loop=BACKWARD), another(gemm(loop=SPLIT)), another(gemm(type="double"))],
    ids=["backwards", "split", "wider sums"],
)
def test_honest_products_pass(text: str, products: Bench) -> None:
    for _ in range(3):
        outcome = examined(products, text)
        assert isinstance(outcome, Passed), outcome.detail


@pytest.fixture(scope="module")
def small_products(builds: Path, scratch: Path) -> Iterator[Bench]:
    workloads = [{"m": 1, "k": 96, "n": 1}, {"m": 200, "k": 96, "n": 1}]
    with bench(builds, kernel=gemm(), reference=GEMM_SETUP, workloads=workloads) as made:
        yield made


def test_a_sum_that_nearly_cancels_is_held_against_nobody(small_products: Bench) -> None:
    for _ in range(4):
        outcome = examined(small_products, gemm(loop=BACKWARD))
        assert isinstance(outcome, Passed), outcome.detail


def test_small_products_of_shortened_factors_are_wrong(small_products: Bench) -> None:
    for _ in range(3):
        outcome = examined(small_products, gemm(narrow=TF32))
        assert reason(outcome) in ("precision", "wrong_output"), outcome  # one number tells little


FAST = BuildSpec(flags=("-O3", "-ffast-math"))


@pytest.mark.parametrize("build", [FAST, another(None)], ids=["-ffast-math", "-O2"])
@pytest.mark.parametrize("text", [ONLINE, another(SOFTMAX)], ids=["online", "three passes"])
def test_honest_softmaxes_pass(text: str, build: BuildSpec | None, softmax: Bench) -> None:
    for _ in range(3):
        outcome = examined(softmax, text, build=build)
        assert isinstance(outcome, Passed), outcome.detail


@pytest.mark.parametrize(
    "narrow", [TF32_CUT, another(TF32), another(BF16)], ids=["tf32 cut", "tf32", "bfloat16"]
)
def test_products_of_shortened_factors_are_imprecise(narrow: str, products: Bench) -> None:
    outcome = examined(products, gemm(narrow=narrow))
    assert reason(outcome) == "precision", outcome.detail
    assert "as if in" in outcome.detail


def test_results_stored_in_fewer_bits_are_imprecise(softmax: Bench) -> None:
    outcome = examined(softmax, SOFTMAX.replace("/* store */", STORED_NARROW))
    assert reason(outcome) == "precision", outcome.detail
    assert "bfloat16" in outcome.detail


def test_sums_in_float32_are_imprecise_where_float64_is_declared(
    builds: Path, scratch: Path
) -> None:
    text = """
void solve(const double *x, double *y, int rows, int n) {
    for (int r = 0; r < rows; r++) { TYPE sum = 0;
        for (int i = 0; i < n; i++) sum += x[r * n + i]; y[r] = sum; }
}"""
    reference = """
import numpy as np
def setup(rows, n, seed=0):
    x = np.random.default_rng(seed).random((rows, n))
    return {"inputs": {"x": x, "y": np.empty(rows), "rows": rows, "n": n}, "outputs": ["y"]}
def reference(x, y, rows, n):
    x.sum(axis=1, out=y)
"""
    wide, narrow = text.replace("TYPE", "double"), text.replace("TYPE", "float")
    workloads = [{"rows": 40, "n": 300}]
    with bench(builds, kernel=wide, reference=reference, workloads=workloads) as made:
        outcome = examined(made, narrow)
        assert reason(outcome) == "precision", outcome.detail
        assert "float32" in outcome.detail


def test_what_overflows_for_large_numbers_is_found(softmax: Bench) -> None:
    """Right on the reference's own draws, which are all small."""
    outcome = examined(softmax, WITHOUT_MAXIMUM)
    assert outcome.kind == "incorrect"
    assert "2^" in outcome.detail or "masked" in outcome.detail


def test_what_divides_by_the_size_of_a_row_of_zeros_is_found(
    builds: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row that is drawn has none."""
    monkeypatch.setattr(module, "WINNERS_S", 600.0)  # until all distributions were tried
    reference = """
import numpy as np
def setup(n, d, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty_like(x), "n": n, "d": d}, "outputs": ["y"]}
def reference(x, y, n, d):
    y[:] = x / np.maximum(np.sqrt(np.square(x).sum(axis=1, keepdims=True)), x.dtype.type(1e-12))
"""
    text = """
#include <math.h>
void solve(const float *x, float *y, int n, int d) {
    for (int i = 0; i < n; i++) {
        float s = 0;
        for (int j = 0; j < d; j++) s += x[i * d + j] * x[i * d + j];
        s = 1 / SIZE;
        for (int j = 0; j < d; j++) y[i * d + j] = x[i * d + j] * s;
    }
}"""
    safe, careless = (text.replace("SIZE", s) for s in ("fmaxf(sqrtf(s), 1e-12f)", "sqrtf(s)"))
    workloads = [{"n": 64, "d": 48}]
    with bench(builds, kernel=safe, reference=reference, workloads=workloads) as made:
        examiner = Examiner(made.target, HostBench(made.oracle, made.target.tolerance, 1))
        incumbent = made.built(safe)
        assert isinstance(examiner.examine(incumbent, lambda *_: None)[0], Passed)
        assert examiner.look_further(made.built(safe + "/* again */"), incumbent) is None
        found = examiner.look_further(made.built(careless), incumbent)
        assert found is not None
        assert reason(found) == "nan_output"
        assert "rows of zeros" in found.detail or "sparse" in found.detail  # zero by chance


def test_an_incumbent_that_overflows_binds_nobody(builds: Path, scratch: Path) -> None:
    workloads = [{"rows": 7, "n": 101}]
    with bench(
        builds, kernel=WITHOUT_MAXIMUM, reference=SOFTMAX_SETUP, workloads=workloads
    ) as made:
        seen = [examined(made, WITHOUT_MAXIMUM + "/* again */") for _ in range(2)]
    assert all(isinstance(outcome, Passed) for outcome in seen), seen


ODD = {
    "reads behind": (
        "void solve(const float *x, float *y, int n) {\n"
        " for (int i = 0; i < n; i++) y[i] = x[i] * x[i] + 1.0f + 1e-3f * (x[i + 1] - x[i + 1]);}",
        "out_of_bounds",
    ),
    "takes the maximum with what lies behind": (
        "#include <math.h>\nvoid solve(const float *x, float *y, int n) {\n"
        " for (int i = 0; i < n; i++) y[i] = x[i] * x[i] + 1.0f;\n"
        " y[0] = fmaxf(y[0], x[n]); y[1] = fmaxf(y[1], -x[n]);}",
        "out_of_bounds",
    ),
    "lags one call": (
        "#include <stdlib.h>\n#include <string.h>\nstatic float *kept; static int length;\n"
        "void solve(const float *x, float *y, int n) {\n"
        " float *now = malloc(n * sizeof(float));\n"
        " for (int i = 0; i < n; i++) now[i] = x[i] * x[i] + 1.0f;\n"
        " memcpy(y, kept && length == n ? kept : now, n * sizeof(float));\n"
        " free(kept); kept = now; length = n;}",
        "stale_output",
    ),
    "adds noise of its own": (
        "#include <stdlib.h>\n#include <time.h>\nvoid solve(const float *x, float *y, int n) {\n"
        " struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); srand(t.tv_nsec);\n"
        " float noise = rand() / (float)RAND_MAX; noise *= noise; noise *= noise;\n"
        " for (int i = 0; i < n; i++) y[i] = x[i] * x[i] + 1.01f + noise;}",
        "nondeterministic",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_kernels_have_names(name: str, squares: Bench) -> None:
    text, expected = ODD[name]
    seen = []
    for _ in range(8):  # what lies behind an array is random, and so is a kernel's own noise
        outcome = examined(squares, text)
        seen.append((reason(outcome), outcome.detail))
        if seen[-1][0] == expected:
            return
    raise AssertionError(seen)


def test_a_kernel_that_knows_the_given_lengths_only_is_found(squares: Bench) -> None:
    text = HONEST.replace("{\n", "{\n if (n != 1000 && n != 1003) return;\n", 1)
    for _ in range(3):
        outcome = examined(squares, text)
        assert reason(outcome) == "skipped_work", outcome.detail
        assert "near the given workloads" in outcome.detail


def test_who_is_wrong_on_large_workloads_is_told_on_a_small_one(
    builds: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEAR_ELEMENTS", 2**14)
    with bench(builds, workloads=({"n": 2**15},)) as made:
        outcome = examined(made, HONEST.replace("x[i] * x[i]", "x[i] * 1.01f * x[i]"))
    assert reason(outcome) == "wrong_output"
    assert "near the given workloads" in outcome.detail
    assert "n=32768" not in outcome.detail


def test_where_a_kernel_died_is_told(squares: Bench) -> None:
    """No number that is drawn is ever as large."""
    check = "for (int i = 0; i < n; i++) if (x[i] > 50) abort();\n    for ("
    text = "#include <stdlib.h>\n" + HONEST.replace("for (", check, 1)
    outcome = examined(squares, text)
    assert (outcome.kind, reason(outcome)) == ("crashed", "signal_sigabrt")
    tolerated = squares.oracle.tolerated().tolerated
    assert any(f", {name}" in outcome.detail for name in tolerated), outcome.detail
    assert "where the incumbent is right: " in outcome.detail


def test_an_incumbent_that_knows_the_given_lengths_only_binds_nobody(
    builds: Path, scratch: Path
) -> None:
    text = HONEST.replace("{\n", "{\n if (n != 1000 && n != 1003) return;\n", 1)
    with bench(builds, kernel=text) as made:
        assert isinstance(examined(made, text + "/* again */"), Passed)


def test_errors_are_reported_for_every_distribution_that_was_tried(squares: Bench) -> None:
    found = squares.check(HONEST)
    tried = {error.inputs for error in found.errors}
    assert "as drawn by setup" in tried
    assert len(tried) > 1
    assert tried <= {"as drawn by setup", *squares.oracle.tolerated().tolerated}
    assert all(error.norm_error <= error.norm_budget for error in found.errors)


NORM_SETUP = """
import numpy as np
def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty(1, np.float32), "n": n}, "outputs": ["y"]}
def reference(x, y, n):
    y[0] = np.sqrt(np.square(x).sum())
"""
NORM = """
#include <math.h>
void solve(const float *x, float *y, int n) {{
    double sum = 0;
    for (int i = 0; i < n; i += 1 + ({skips})) sum += (double)x[i] * x[i] * (1 + ({skips}));
    y[0] = sqrt(sum);
}}
"""


def test_a_sum_over_half_of_a_long_row_is_wrong(builds: Path, scratch: Path) -> None:
    """On own draws that is often a smaller error than the order of summation may make; on spikes
    it never is."""
    given = {"n": 2**20}
    honest = NORM.format(skips="0")
    with bench(builds, kernel=honest, reference=NORM_SETUP, workloads=[given]) as made:
        outcome = examined(made, NORM.format(skips=f"n == {given['n']}"))
    # A single number may by chance be what an earlier call should have given.
    assert reason(outcome) in ("wrong_output", "precision", "memoised_result")


TANH_SETUP = """
import numpy as np
def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty_like(x), "n": n}, "outputs": ["y"]}
def reference(x, y, n):
    np.tanh(x, out=y)
"""
TANH = """
#include <math.h>
void solve(const float *x, float *y, int n) {{
    for (int i = 0; i < n; i++) {{ float t = tanhf(x[i]); y[i] = {rounded}; }}
}}
"""


def test_an_elementwise_operator_has_no_row_to_sum(builds: Path, scratch: Path) -> None:
    """Four digits would do if an element of a long array were taken for a sum over it."""
    workloads = [{"n": 100_000}]
    honest = TANH.format(rounded="t")
    with bench(builds, kernel=honest, reference=TANH_SETUP, workloads=workloads) as made:
        again = examined(made, honest + "/* again */")
        assert isinstance(again, Passed), again.detail
        outcome = examined(made, TANH.format(rounded="rintf(t * 4096) / 4096"))
    assert isinstance(outcome, Incorrect)
