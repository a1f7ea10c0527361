"""Every card, on kernels in many styles: correct code, or none."""

from __future__ import annotations

import re

import numpy as np
import pytest
from recipe_bench import assert_same, compile_candidate, context_of, needs_gcc, run
from recipe_kernels import CASES, KERNELS, Kernel

from kinds import another
from roofsmith.profilers import perf
from roofsmith.profilers.perf_output import PerfReading, PerfRun, counters
from roofsmith.proposers.cards import Card, CardChange, all_cards

EVENTS = {event.removesuffix(":u") for event in (*perf.BASE, *perf.CACHE, *perf.LAST_LEVEL)}
READINGS = tuple(PerfReading(event, 1000.0, 1.0) for event in sorted(EVENTS))
COUNTED = {counter.name for counter in counters([PerfRun(READINGS, 1, 1.0)], 2)}
C_CARDS = (card for card in all_cards() if "c" in card.languages)
CARDS = {card.id: card for card in C_CARDS if not card.id.startswith("gemm")}

MANY = ("layernorm", "chain", "padded", "scop", "matvec-transposed", "histogram",
        "scratch-row")  # fmt: skip
"""Kernels that together get every card that composes with others."""


@needs_gcc
@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_each_card_gives_the_same_results(name: str, tmp_path) -> None:
    kernel = KERNELS[name]
    context = context_of(kernel)
    library = compile_candidate(context.candidate, tmp_path)
    for card in CARDS.values():
        change = card.apply(context)
        if change is None:
            continue
        assert change.candidate.id != context.candidate.id
        assert change.statement
        changed = compile_candidate(change.candidate, tmp_path)
        text = change.candidate.kernel.text
        helpers = re.findall(r"(roofsmith_\w+)\(", text)
        assert all(text.count(name) > 1 for name in helpers), "a helper that nothing uses"
        for dims in (kernel.dims, kernel.odd):
            expected = run(kernel, context.candidate, library, dims)
            actual = run(kernel, change.candidate, changed, dims)
            assert_same(expected, actual, f"{card.id}\n{change.candidate.kernel.text}")


@needs_gcc
@pytest.mark.parametrize("backwards", [True, another(False)])
@pytest.mark.parametrize("name", [one if one in MANY else another(one) for one in KERNELS])
@pytest.mark.slow
def test_cards_compose_in_any_order_they_are_kept(name: str, backwards: bool, tmp_path) -> None:
    kernel = KERNELS[name]
    context = context_of(kernel)
    library = compile_candidate(context.candidate, tmp_path)
    current = context
    applied = []
    for id in sorted(CARDS, reverse=backwards) * 2:
        change = CARDS[id].apply(current)
        if isinstance(change, CardChange) and applied.count(id) < 2:
            current = context_of(kernel, change.candidate)
            applied.append(id)
    if not applied:
        return
    changed = compile_candidate(current.candidate, tmp_path)
    for dims in (kernel.dims, kernel.odd):
        expected = run(kernel, context.candidate, library, dims)
        actual = run(kernel, current.candidate, changed, dims)
        assert_same(expected, actual, f"{applied}\n{current.candidate.kernel.text}")


@pytest.mark.parametrize("name", KERNELS)
def test_predictions_are_finite_and_respect_the_roofline(name: str) -> None:
    context = context_of(KERNELS[name], fraction=0.8)
    for card in CARDS.values():
        predicted = card.predict(context)
        assert np.isfinite(predicted), card.id
        assert 1.0 <= predicted <= 1 / 0.8 + 1e-9, card.id


@pytest.mark.parametrize("card", CARDS.values(), ids=lambda card: card.id)
def test_a_card_says_where_it_comes_from(card: Card) -> None:
    assert card.id == card.id.lower().replace("_", "-")
    assert card.answers
    assert len(card.source) > 20
    assert card.category != "other"
    assert card.expected_counter in COUNTED, "no profiler of the host gives it"
    assert card.expected_change.startswith(("up", "down")), "its direction can't be scored"


@pytest.mark.parametrize(
    ("name", "card", "applies"),
    [
        ("scratch-row", "parallel-loops", True),
        ("medians", "parallel-loops", True),
        ("shared-list", "parallel-loops", False),
        ("top-k", "parallel-loops", True),
        ("top-k-qsort", "parallel-loops", False),
        ("layernorm", "parallel-loops", True),
        ("rmsnorm", "parallel-loops", True),
        ("dot", "parallel-loops", True),
        ("on-one-line", "parallel-loops", True),
        ("on-one-line", "vector-math", True),
        ("on-one-line", "simd-reductions", True),
        ("integer-dot", "simd-reductions", False),
        ("integer-dot", "vector-accumulators", False),
        ("templates", "parallel-loops", True),
        ("templates", "vector-math", True),
        ("templates", "simd-reductions", True),
        ("templates", "vector-accumulators", True),
        ("scop", "parallel-loops", True),
        ("rows-and-columns", "parallel-loops", True),
        ("moving-pointers", "vector-math", True),
        ("moving-pointers", "hoist-division", True),
        ("prefix-sum", "parallel-loops", False),
        ("histogram", "parallel-loops", False),
        ("there-and-back", "parallel-loops", True),
        ("gelu", "vector-math", True),
        ("softmax-cpp", "vector-math", True),
        ("log-softmax", "vector-math", True),
        ("stencil", "vector-math", False),
        ("rmsnorm", "vector-accumulators", True),
        ("conv2d", "vector-accumulators", True),
        ("prefix-sum", "vector-accumulators", False),
        ("matvec-transposed", "interchange-sums", True),
        ("row-sum", "interchange-sums", False),
        ("softmax-cpp", "hoist-division", True),
        ("chain", "hoist-division", True),
        ("transposed", "interchange-loops", True),
        ("stencil", "interchange-loops", False),
        ("transposed", "fuse-loops", True),
        ("chain", "fuse-loops", True),
        ("layernorm", "fuse-loops", False),
        ("gelu", "restrict-pointers", False),
        ("layernorm", "restrict-pointers", True),
    ],
)
def test_cards_apply_where_they_should(name: str, card: str, applies: bool) -> None:
    change = CARDS[card].apply(context_of(KERNELS[name]))
    assert isinstance(change, CardChange) == applies, change


def test_a_largest_value_is_found_in_lanes() -> None:
    text = """
void solve(const float* x, float* y, int n) {
    float most = x[0];
    for (int i = 1; i < n; i++) { if (x[i] > most) { most = x[i]; } }
    y[0] = most;
}"""
    kernel = Kernel(text, dims={"n": 4096}, shapes={"x": ("n",), "y": ("1",)})
    assert CARDS["simd-reductions"].apply(context_of(kernel)) is not None


FLAT = """
void solve(const float* x, float* y, int n, int m) {
    for (int i = 0; i < n; i++) {
        float s = 0;
        for (int j = 0; j < m; j++) s += x[i * m + j];
        for (int j = 0; j < m; j++) y[i * m + j] = x[i * m + j] / s;
    }
}"""


FLAT_ARRAYS = "const float* x, float* y, int n, int m"


@pytest.mark.parametrize(
    ("body", "shared"),
    [
        ("y[3 * i] = x[i]; y[3 * i + 1] = x[i]; y[3 * i + 2] = y[3 * i] + y[3 * i + 1];", True),
        ("y[3 * i + 2] = 0; for (int k = 0; k < 2; k++) y[3 * i + k] = y[3 * i + 2];", True),
        ("y[3 * i] = x[i]; y[3 * i + 3] = x[i];", False),
        ("y[3 * i] = x[i]; for (int k = 1; k < 4; k++) y[3 * i + k] = x[k];", False),
        ("y[3 * i] = y[3 * i - 3];", False),
        ("y[3 * i] = 0; for (int k = 0; k < m; k++) y[3 * i + k] += x[k];", False),
    ],
)
def test_elements_of_a_few_numbers_each_are_shared_out(body: str, shared: bool) -> None:
    text = f"void solve({FLAT_ARRAYS}) {{ for (int i = 0; i < n; i++) {{ {body} }} }}"
    kernel = Kernel(text, dims={"n": 4_000_000, "m": 3}, shapes={"x": ("n",), "y": ("n", "m")})
    change = CARDS["parallel-loops"].apply(context_of(kernel))
    assert (change is not None) == shared


@pytest.mark.parametrize(
    ("parameters", "row"),
    [
        (
            FLAT_ARRAYS,
            "const float* p = x + i * m; for (int j = 0; j < m; j++) s += *p++;"
            "float* q = y + i * m; p = x + i * m; for (int j = 0; j < m; j++) *q++ = *p++ / s;",
        ),
        (
            "int n, int m, const float x[n][m], float y[n][m]",
            "for (int j = 0; j < m; j++) s += x[i][j];"
            "for (int j = 0; j < m; j++) y[i][j] = x[i][j] / s;",
        ),
    ],
)
def test_one_kernel_gets_the_same_cards_however_rows_are_walked(parameters: str, row: str) -> None:
    other = f"void solve({parameters}) {{ for (int i = 0; i < n; i++) {{ float s = 0; {row} }} }}"
    kernels = (Kernel(text, dims={"n": 300, "m": 200}, shapes={}) for text in (FLAT, other))
    flat, walked = (
        {id for id, card in CARDS.items() if card.apply(context_of(kernel)) is not None}
        for kernel in kernels
    )
    assert walked == flat


@pytest.mark.parametrize("trips", [256, 4_000_000])
def test_threads_are_asked_for_where_the_work_is(trips: int) -> None:
    text = f"""
void solve(float* y, int n) {{
    for (int k = 0; k < {trips}; k++) y[k] = 0;
    for (int i = 1; i < n; i++) y[i] += y[i - 1];
}}"""
    kernel = Kernel(text, dims={"n": 4_000_000}, shapes={"y": ("n",)})
    shared = CARDS["parallel-loops"].apply(context_of(kernel))
    assert (shared is not None) == (trips > 256)


@pytest.mark.parametrize(
    ("row", "after", "shared"),
    [
        ("for (i = 0; i < n; i++) y[i] = 2 * x[i];", "y[0] = i;", False),
        ("for (i = 0; i < n; i++) { k = i; y[i] = x[k]; }", "if (n) { k = 0; } y[0] = k;", False),
        ("while (m-- > k) { for (i = 0; i < n; i++) { k = i; y[i] = x[k]; } }", "", False),
        ("for (i = 0; i < n; i++) y[i] = 2 * x[i];", "i = 0; y[0] = i;", True),
        ("for (i = 0; i < n; i++) { k = i; y[i] = x[k]; }", "for (k = 0; k < 1; k++) ;", True),
        ("while (m-- > 1) { for (i = 0; i < n; i++) { k = i; y[i] = x[k]; } }", "", True),
    ],
)
def test_a_counter_that_is_read_later_belongs_to_no_thread(
    row: str, after: str, shared: bool
) -> None:
    text = f"void solve(const float* x, float* y, int n, int m) {{ int i, k = 0; {row} {after} }}"
    shapes = {"x": ("n",), "y": ("n",)}
    kernel = Kernel(text, dims={"n": 4_000_000, "m": 3}, shapes=shapes)
    change = CARDS["parallel-loops"].apply(context_of(kernel))
    assert (change is not None) == shared


@pytest.mark.parametrize(("name", "loops"), [("there-and-back", 2), ("shifted", 1)])
def test_other_rows_and_columns_are_apart_and_shifts_are_not(name: str, loops: int) -> None:
    change = CARDS["parallel-loops"].apply(context_of(KERNELS[name]))
    assert change is not None
    assert change.candidate.kernel.text.count("#pragma omp parallel for") == loops


def test_no_threads_are_asked_for_where_there_is_one() -> None:
    assert CARDS["parallel-loops"].apply(context_of(KERNELS["layernorm"], threads=1)) is None


FILLED = "for (int j = 0; j < m; j++) b[j] = x[i * m + j];"
USED = "for (int j = 0; j < m; j++) y[i * m + j] = 2 * b[j];"
HEAP = "float *b = malloc(m * sizeof(float));"


@pytest.mark.parametrize(
    ("made", "body", "after", "shared"),
    [
        (HEAP, f"{FILLED} {USED}", "free(b);", True),
        ("float b[m];", f"{FILLED} {USED}", "", True),
        ("float b[500];", f"{FILLED} {USED}", "", True),
        (HEAP, f"{FILLED} {USED.replace('j = 0', 'j = 1')}", "free(b);", True),
        # what another iteration left, in all of it or in a part
        (HEAP, f"{USED} {FILLED}", "free(b);", False),
        (HEAP, f"{FILLED.replace('j = 0', 'j = 1')} {USED}", "free(b);", False),
        (HEAP, f"{FILLED.replace('j < m', 'j < m - 1')} {USED}", "free(b);", False),
        (HEAP, f"{FILLED.replace('j++', 'j += 2')} {USED}", "free(b);", False),
        (HEAP, f"{FILLED.replace('b[j] =', 'b[j] +=')} {USED}", "free(b);", False),
        (HEAP, f"if (x[i] > 0) {{ {FILLED} }} {USED}", "free(b);", False),
        (HEAP, f"{FILLED.replace('b[j]', 'if (x[j] > 0) b[j]')} {USED}", "free(b);", False),
        (HEAP, f"for (int k = 0; k < n - 9; k++) {FILLED} {USED}", "free(b);", False),
        (HEAP, f"{FILLED.replace('b[j] =', 'b[j % 7] =')} {USED}", "free(b);", False),
        (HEAP, f"if (i == 0) b[0] = 1; {USED.replace('b[j]', 'b[0]')}", "free(b);", False),
        (
            HEAP,
            f"{{ int e = m; {FILLED.replace('< m', '< e')} }} {{ int e = n; "
            f"{USED.replace('< m', '< e')} }}",
            "free(b);",
            False,
        ),
        (HEAP, f"{FILLED} if (x[i] > 0) continue; {USED}", "free(b);", False),
        (HEAP, f"{FILLED.replace('; j++', ' && x[j] > 0; j++')} {USED}", "free(b);", False),
        (HEAP, f"for (int j = 0; j < m; j++) {{ b[j] = x[j]; j++; }} {USED}", "free(b);", False),
        (HEAP, f"while (y[i] < 0) {{ {FILLED} y[i] += 1; }} {USED}", "free(b);", False),
        (
            HEAP,
            f"int e = x[i]; {FILLED.replace('< m', '< e')} e = x[i + 1]; "
            f"{USED.replace('< m', '< e')}",
            "free(b);",
            False,
        ),
        (HEAP, f"for (int j = m - 1; j >= 0; j--) b[j] = x[j]; {USED}", "free(b);", False),
        ("float *b = malloc((int)x[0] * sizeof(float));", f"{FILLED} {USED}", "free(b);", False),
        # what is read behind the loop, looked at, never freed, or reached in another way
        (HEAP, f"{FILLED} {USED}", "y[0] = b[0]; free(b);", False),
        (HEAP + "if (!b) return;", f"{FILLED} {USED}", "free(b);", False),
        (HEAP, f"{FILLED} {USED}", "", False),
        (HEAP, f"{FILLED} {USED}", "if (m > 3) free(b);", False),
        (HEAP + "float *c = b;", f"{FILLED} {USED} c[0] += 1;", "free(b);", False),
        (HEAP, f"{FILLED} float *c = b; y[i * m] = c[0]; {USED}", "free(b);", False),
        ("static float b[500];", f"{FILLED} {USED}", "", False),
        ("float b[500] = {1};", f"{FILLED} {USED}", "", False),
    ],
)
def test_a_buffer_is_each_threads_own_where_every_iteration_fills_it_first(
    made: str, body: str, after: str, shared: bool
) -> None:
    text = (
        "#include <stdlib.h>\nvoid solve(const float* x, float* y, int n, int m) {\n"
        f"    {made}\n    for (int i = 0; i < n; i++) {{\n        {body}\n    }}\n    {after}\n}}\n"
    )
    shapes = {"x": ("n", "m"), "y": ("n", "m")}
    change = CARDS["parallel-loops"].apply(
        context_of(Kernel(text, dims={"n": 4000, "m": 500}, shapes=shapes))
    )
    found = None if change is None else change.candidate.kernel.text
    outermost = found is not None and "for (int i" in found.split("schedule(static)")[1][:60]
    assert outermost == shared, found
    if found is not None and shared and after:
        assert found.count("malloc(") == found.count("free(") == 1
        assert found.index("omp parallel") < found.index("malloc(")
