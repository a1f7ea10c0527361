"""Operations are counted from the loops of a kernel where they are sure, and bound nothing."""

from __future__ import annotations

import pytest

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.cost import cost
from roofsmith.analysis.loop_operations import counted_from_loops
from roofsmith.analysis.roofline import below_floor, bound
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import Language, SourceFile
from roofsmith.domain.workload import Workload
from roofsmith.testing.engine import fake_target
from roofsmith.testing.machine import fake_device, fake_facts

NEAREST = """
#include <float.h>
void solve(const float *pts, const float *cent, int *assign, int N, int K, int D) {
    for (int i = 0; i < N; i++) {
        float best = FLT_MAX;
        int bi = 0;
        for (int k = 0; k < K; k++) {
            float d = 0;
            for (int j = 0; j < D; j++) {
                float t = pts[i * D + j] - cent[k * D + j];
                d += t * t;
            }
            if (d < best) { best = d; bi = k; }
        }
        assign[i] = bi;
    }
}"""
HEAD = "void solve(const float *x, float *y, int N, int K) {"
SIZES = {"N": 20, "K": 6, "D": 4}
COUNTED: dict[str, tuple[str, float]] = {
    "nearest": (NEAREST, 20 * 6 * 4 * 3),
    "sweeps": (
        "void solve(double *A, int N, int K) { for (int t = 0; t < K; t++)"
        " for (int i = 1; i < N - 1; i++) A[i] = 0.5 * (A[i - 1] + A[i + 1]); }",
        6 * 18 * 2,
    ),
    "triangle": (
        HEAD + "for (int i = 0; i < N; i++) for (int j = 0; j <= i; j++) y[i] += x[j]; }", 210,
    ),
    "down, by a step": (
        HEAD + "for (int i = N - 1; i >= 0; i -= 4) y[i] = 2 * x[i]; }", 5,
    ),
    "a called function": (
        "static float dot(const float *a, int n) { float s = 0; for (int i = 0; i < n; i++)"
        " s += a[i] * a[i]; return s; }" + HEAD + "y[0] = 2 * dot(x, K * K); }", 36 * 2 + 1,
    ),
    "a type of the file": (
        "#define REAL float\nvoid solve(REAL *y, int N) { for (int i = 0; i < N; i++)"
        " y[i] = y[i] + 1; }", 20,
    ),
    "the math library": (
        "#include <math.h>\n" + HEAD + "int i; for (i = 0; i < N; ++i) y[i] = sqrtf(x[i]) / 3; }",
        40,
    ),
    "less where it isn't sure": (
        HEAD + "for (int i = 0; i < N; i++) { y[i] = x[i] * 2; if (x[i] > 0) y[i] *= 3; } }", 20,
    ),
    "a choice of sizes": (
        HEAD + "if (N > 100) { for (;;) ; } else for (int i = 0; i < N; i++) y[i] = x[i] + 1; }",
        20,
    ),
}  # fmt: skip
UNKNOWN: dict[str, str] = {
    "data end the loop": "for (int i = 0; i < N && x[i] > 0; i++) y[i] = x[i] * 2;",
    "while": "int i = 0; while (x[i] > 0) { y[i] = 2 * x[i]; i++; }",
    "a jump": "for (int i = 0; i < N; i++) { if (x[i] < 0) break; y[i] = 2 * x[i]; }",
    "a bound of data": "for (int i = 0; i < (int)x[0]; i++) y[i] = 2 * x[i];",
    "a bound that changes": "N = 3; for (int i = 0; i < N; i++) y[i] = 2 * x[i];",
    "a loop that may not run": "if (x[0] > 0) for (int i = 0; i < N; i++) y[i] = 2 * x[i];",
    "a shadowed bound": "{ int N = (int)x[0]; for (int i = 0; i < N; i++) y[i] = 2 * x[i]; }",
    "somebody else's code": "cblas_saxpy(N, 2, x, 1, y, 1);",
    "the variable moves": "for (int i = 0; i < N; i++) { y[i] = 2 * x[i]; i += 3; }",
    "nothing is computed": "for (int i = 0; i < N; i++) y[i] = x[K * i];",
    "itself": "solve(x, y, N, K);",
    "no C": "for (int i = 0; i < N; i++) y[i] = = x[i];",
}


def counted(text: str, language: Language = "c") -> float | None:
    target = fake_target(kernel=SourceFile(path="kernel.c", text=text), language=language)
    found = counted_from_loops(target.baseline, SIZES)
    assert found is not None
    assert found.origin == "loops"
    assert "kernel.c" in found.detail
    return found.value


@pytest.mark.parametrize("case", COUNTED)
def test_what_is_sure_to_be_done_is_counted(case: str) -> None:
    text, operations = COUNTED[case]
    assert counted(text) == operations
    assert counted(text.replace("void solve", 'extern "C" void solve'), "cpp") == operations


def test_the_function_is_the_one_that_the_target_names() -> None:
    source = SourceFile(path="kernel.c", text=NEAREST.replace("solve", "nearest"))
    for entry, operations in (("nearest", COUNTED["nearest"][1]), ("solve", None)):
        found = counted_from_loops(fake_target(kernel=source, entry=entry).baseline, SIZES)
        assert found is not None
        assert found.value == operations


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_data_decide_is_unknown(case: str) -> None:
    assert counted(f"{HEAD} {UNKNOWN[case]} }}") is None


def test_a_count_of_loops_is_an_estimate_and_no_limit() -> None:
    target = fake_target(kernel=SourceFile(path="kernel.c", text=NEAREST))
    arrays = tuple(
        ArraySpec(name=role, role=role, dtype="float32", shape=(1000, 16))
        for role in ("input", "output")
    )
    said = WorkloadDescription(
        arrays=arrays, scalars={}, flops=None, bytes=None, atol=None, rtol=None
    )
    workload = Workload(dims={"N": 20_000, "K": 64, "D": 16})
    loops = counted_from_loops(target.baseline, workload.dims)
    needed = cost(workload, said, None, loops)
    found = bound(workload, needed, fake_facts(), fake_device(), 2)
    assert loops is not None
    assert loops.value == 20_000 * 64 * 16 * 3
    assert found.bytes_only
    assert found.limiter == "memory"
    assert found.estimate_s == pytest.approx(loops.value / (found.peak.value or 0))
    without = bound(workload, cost(workload, said, None), fake_facts(), fake_device(), 2)
    assert found.floor_time_s == without.floor_time_s
    assert below_floor(found, (found.estimate_s or 0) / 2) is None
    assert not bound(
        workload, cost(workload, said, "elementwise"), fake_facts(), fake_device(), 2
    ).bytes_only


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(4e-6, "<1% (bytes only)"), (0.41, "41% (bytes only)"), (None, "UNKNOWN")],
)
def test_a_share_of_bytes_alone_says_so(fraction: float | None, text: str) -> None:
    assert fmt.share(fraction, bytes_only=True) == text
    assert fmt.share(fraction, bytes_only=False) == fmt.percent(fraction)
