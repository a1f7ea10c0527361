"""Reading kernels: functions, loops, accesses, dependences, and edits by bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.proposers.accesses import FunctionAccesses, expand
from roofsmith.proposers.dependence import Parallel, examine
from roofsmith.proposers.edits import SourceEdit, apply_edits
from roofsmith.proposers.induction import without_moving
from roofsmith.proposers.reading import read_kernel
from roofsmith.proposers.reductions import find_reduction
from roofsmith.proposers.source import Source, loops
from roofsmith.proposers.syntax import calls, text_of


def body(code: str, parameters: str = "const float* x, float* y, int n, int m") -> Source:
    return Source(f"void solve({parameters}) {{\n{code}\n}}\n")


def accesses_of(source: Source) -> FunctionAccesses:
    solve = source.function("solve")
    assert solve is not None
    return FunctionAccesses(source, solve)


def verdict_of(code: str) -> Parallel | None:
    source = body(code)
    accesses = accesses_of(source)
    return examine(accesses, loops(accesses.function.body)[0])


@given(st.text(max_size=40), st.data())
def test_edits_touch_only_what_they_name(text: str, data: st.DataObject) -> None:
    size = len(text.encode())
    boundaries = [len(text[:k].encode()) for k in range(len(text) + 1)]
    start = data.draw(st.sampled_from(boundaries))
    end = data.draw(st.sampled_from([b for b in boundaries if b >= start]))
    edited = apply_edits(text, [SourceEdit(start, end, "new")]).encode()
    assert edited[:start] == text.encode()[:start]
    assert edited[start + 3 :] == text.encode()[end:size]


def test_insertions_at_one_place_keep_their_order() -> None:
    assert apply_edits("ab", [SourceEdit(1, 1, "1"), SourceEdit(1, 1, "2")]) == "a12b"


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        apply_edits("abcdef", [SourceEdit(0, 3, ""), SourceEdit(2, 4, "")])


@pytest.mark.parametrize(
    ("header", "variable", "upper", "step"),
    [
        ("int i = 0; i < n; i++", "i", "n", "1"),
        ("size_t k = 2; k <= n - 1; ++k", "k", "(n - 1) + 1", "1"),
        ("i = 0; n > i; i += 4", "i", "n", "4"),
        ("long j = 0; j != m; j = j + 1", "j", "m", "1"),
    ],
)
def test_counting_loops_are_read(header: str, variable: str, upper: str, step: str) -> None:
    (loop,) = loops(body(f"int i; for ({header}) y[0] = 0;").root)
    assert loop.canonical
    assert (loop.variable, loop.upper_text, loop.step) == (variable, upper, step)


@pytest.mark.parametrize(
    "header",
    ["int i = n; i > 0; i--", "; ;", "int i = 0, j = 0; i < n; i++", "int i = 0; i < n; i *= 2"],
)
def test_other_loops_are_not(header: str) -> None:
    (loop,) = loops(body(f"for ({header}) y[0] = 0;").root)
    assert not loop.canonical


def test_a_loop_that_moves_its_own_variable_is_not_canonical() -> None:
    (loop,) = loops(body("for (int i = 0; i < n; i++) { y[i] = 0; i++; }").root)
    assert not loop.canonical


@pytest.mark.parametrize(
    "statement",
    [
        "y[i * m + j] = x[i * m + j];",
        "*(y + i * m + j) = *(x + (long)i * m + j);",
        "float* row = y + i * m; const float* from = &x[i * m]; row[j] = from[j];",
        "int at = i * m; y[at + j] = x[j + at];",
        "int at; at = i * m; y[at + j] = x[j + at];",
        "float* r; const float* f; r = y + i * m; f = x; f = &x[i * m + j]; r[j] = *f;",
        "(&y[i * m])[j] = x[m * i + j];",
        "float (*v)[m] = y; const float (*u)[m] = x; v[i][j] = u[i][j];",
        "float (*v)[m] = y; const float (*u)[m] = x; float* r = v[i]; r[j] = (&u[i][0])[j];",
    ],
)
def test_one_element_has_one_index_however_it_is_written(statement: str) -> None:
    code = f"for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) {{ {statement} }}"
    found = accesses_of(body(code)).accesses
    assert {access.base for access in found} == {"x", "y"}
    assert len({access.index for access in found}) == 1
    assert [access.base for access in found if access.writes] == ["y"]


def test_accesses_are_followed_into_functions_and_macros() -> None:
    source = Source("""
#define AT(a, i, j) a[(i) * m + (j)]
static void put(float* to, int j) { to[j] = 1.0f; }
void solve(float* y, int n, int m) {
    for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { put(y + i * m, j); AT(y, i, j) = 2; }
}
""")
    found = accesses_of(source).accesses
    assert len(found) == 2
    assert len({access.index for access in found}) == 1
    assert all(access.writes for access in found)


def test_macros_expand_inside_out() -> None:
    source = Source(
        "#define D(a) ((a) * 2)\n#define E(a) (D(a) + 1)\nint f(int k) { return E(k); }"
    )
    name, call = calls(source.root)[0]
    assert name == "E"
    expanded = text_of(expand(call, source.macros))
    assert eval(expanded, {"k": 20}) == 41


@pytest.mark.parametrize(
    "code",
    [
        "for (int i = 0; i < n; i++) y[i] = x[i];",
        "for (int i = 0; i < n; i++) y[2 * i + 1] = x[i];",
        "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) y[i * m + j] += x[j];",
        "for (int j = 0; j < m; j++) for (int i = 0; i < n; i++) y[i * m + j] = x[j];",
        "for (int i = 0; i < n; i++) { float t[4]; t[0] = x[i]; y[i] = t[0]; }",
        "for (int i = 0; i < n; i++) for (int k = 0; k < 4; k++) y[4 * i + k] = x[i];",
        "for (int i = 0; i < n; i++) { float* r = y + i * m; r[0] = 1; r[1] = r[0]; }",
    ],
)
def test_independent_iterations_are_seen(code: str) -> None:
    assert isinstance(verdict_of(code), Parallel)


@pytest.mark.parametrize(
    "code",
    [
        "for (int i = 1; i < n; i++) y[i] = y[i - 1] + x[i];",
        "for (int i = 0; i < n; i++) y[0] = x[i];",
        "for (int i = 0; i < n; i++) y[(int)x[i]] = 1;",
        "for (int i = 0; i < n; i++) y[i / 2] = x[i];",
        "for (int i = 0; i < n; i++) for (int k = 0; k < 5; k++) y[4 * i + k] = 1;",
        "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) y[i + j] += 1;",
        "for (int i = 0; i < n; i++) { if (x[i] > 0) break; y[i] = 1; }",
        "for (int i = 0; i < n; i++) { y[i] = rand(); }",
        "float last = 0; for (int i = 0; i < n; i++) { y[i] = last; last = x[i]; }",
        "float* p = y; for (int i = 0; i < n; i++) { *p = 1; p++; }",
        "float* p; for (int i = 0; i < n; i++) { p = y + i; p++; if (m) p = y; *p = 1; }",
        "float* p; p = y; for (int i = 0; i < n; i++) { p[i] = 1; p = y + 2; }",
        "float* p; p = y; if (m) { p = y + 1; } for (int i = 0; i < n; i++) p[i] = y[i];",
    ],
)
def test_dependent_iterations_are_seen(code: str) -> None:
    assert verdict_of(code) is None


@pytest.mark.parametrize(("kind", "independent"), [("float&", False), ("const float&", True)])
def test_what_a_call_changes_through_a_reference_is_seen(kind: str, independent: bool) -> None:
    source = Source(
        f"float f({kind} a) {{ return a; }}\n"
        "void solve(float* y, int n) { for (int i = 1; i < n; i++) y[i] = f(y[i]); }",
        "cpp",
    )
    accesses = accesses_of(source)
    assert (examine(accesses, accesses.function.loops[0]) is not None) == independent


def test_a_pragma_between_loops_leaves_one_inside_the_other() -> None:
    text = """void solve(float* y, int n) {
    if (n > 0)
#pragma omp parallel for
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
#pragma omp simd
#pragma GCC unroll 4
        for (int k = 0; k < n; k++) y[k] = i + j;
    y[0] = 1;
}"""
    solve = read_kernel(text, "c", "solve").functions[0]
    assert [loop.innermost for loop in solve.loops] == [False, False, True]


@pytest.mark.parametrize(
    "code",
    [
        "for (int i = 0; i < n; i++) if (x[i] > 0) *y++ = x[i];",
        "for (int i = 0; i < n; i++) { if (x[i] > 0) continue; *y++ = x[i]; }",
        "for (int i = 0; i < n; i++) { *y++ = 1; y += m; }",
        "for (int i = 0; i < n; i++) { y += m; m *= 2; *y = 1; }",
        "while (*x) *y++ = *x++;",
        "for (int i = 0; i < n; i++) { *y++ = 1; float** q = &y; **q = 2; }",
        "short o = 0; for (int i = 0; i < n; i++) { y[o] = x[o]; o += 3; }",
    ],
)
def test_what_moves_in_another_way_is_left_alone(code: str) -> None:
    source = body(code)
    assert without_moving(source).text == source.text


def test_scalars_from_outside_become_private() -> None:
    verdict = verdict_of(
        "int j; float s;"
        "for (int i = 0; i < n; i++) { s = 0; for (j = 0; j < m; j++) s += x[j]; y[i] = s; }"
    )
    assert isinstance(verdict, Parallel)
    assert set(verdict.private) == {"j", "s"}


@pytest.mark.parametrize(
    ("update", "operation"),
    [
        ("s += x[i];", "+"),
        ("s = s + x[i] * x[i];", "+"),
        ("s = x[i] + s;", "+"),
        ("s -= x[i];", "+"),
        ("s *= x[i];", "*"),
        ("s = x[i] > s ? x[i] : s;", "max"),
        ("s = s > x[i] ? s : x[i];", "max"),
        ("s = s < x[i] ? s : x[i];", "min"),
        ("if (x[i] > s) s = x[i];", "max"),
        ("if (s > x[i]) { s = x[i]; }", "min"),
        ("s = fmaxf(s, x[i]);", "max"),
        ("s = fmin(x[i], s);", "min"),
    ],
)
def test_accumulators_are_recognised(update: str, operation: str) -> None:
    source = body(f"float s = 0; for (int i = 0; i < n; i++) {{ {update} }} y[0] = s;")
    reduction = find_reduction(loops(source.root)[0], "s")
    assert reduction.operation == operation


@pytest.mark.parametrize(
    "update",
    ["s = x[i];", "s = s * 2 + x[i];", "s += x[i]; y[i] = s;", "s = x[i] - s;", "s += s * x[i];"],
)
def test_what_is_no_accumulator_is_not_taken_for_one(update: str) -> None:
    source = body(f"float s = 0; for (int i = 0; i < n; i++) {{ {update} }} y[0] = s;")
    assert find_reduction(loops(source.root)[0], "s") is None


def test_helpers_go_behind_includes_and_earlier_helpers() -> None:
    source = Source("// kernel\n#include <math.h>\nvoid solve(float* y) { y[0] = 0; }\n")
    once = source.edited([source.insert_helpers("static int roofsmith_a(void) { return 1; }")])
    twice = once.edited([once.insert_helpers("static int roofsmith_b(void) { return 2; }")])
    names = [function.name for function in twice.functions]
    assert names == ["roofsmith_a", "roofsmith_b", "solve"]
    assert twice.text.index("#include") < twice.text.index("roofsmith_a")
