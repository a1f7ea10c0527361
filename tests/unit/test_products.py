"""Which loops are seen as a matrix product, with which operands, and which common ones aren't."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.affine import Atom, Polynomial
from roofsmith.proposers.products import MatmulNest, products_in
from roofsmith.proposers.source import Source

HEAD = "void solve(const float* A, const float* B, float* C, int M, int N, int K) {"


def look(body: str, head: str = HEAD, before: str = "") -> list[MatmulNest]:
    source = Source(f"{before}\n{head}\n{body}\n}}\n")
    return [n for f in source.functions for n in products_in(FunctionAccesses(source, f))]


def only(body: str, head: str = HEAD, before: str = "") -> MatmulNest:
    (nest,) = look(body, head, before)
    return nest


def dot(a: str, b: str, store: str = "C[i * N + j] = s;", start: str = "0") -> str:
    return f"""
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {{
            float s = {start};
            for (int k = 0; k < K; k++) s += {a} * {b};
            {store}
        }}"""


ATOMS = [Atom("n"), Atom("m"), Atom("i", 1), Atom("j", 2)]
POLYNOMIALS = st.lists(
    st.tuples(st.lists(st.sampled_from(ATOMS), max_size=2).map(tuple), st.integers(-3, 3)),
    max_size=4,
).map(Polynomial.of)


@given(POLYNOMIALS, POLYNOMIALS, POLYNOMIALS)
def test_polynomials_are_a_ring(x: Polynomial, y: Polynomial, z: Polynomial) -> None:
    assert x * (y + z) == x * y + x * z
    assert (x + y) + z == x + (y + z)
    assert x * y == y * x
    assert x - x == Polynomial()


@given(POLYNOMIALS)
def test_rendered_text_has_the_polynomials_value(x: Polynomial) -> None:
    values = {"n": 7, "m": 11, "i": 13, "j": 17}
    text = x.render().replace("(ptrdiff_t)", "")
    total = 0
    for monomial, factor in x.terms:
        for atom in monomial:
            factor *= values[atom.text]
        total += factor
    assert eval(text, {}, values) == total


@given(POLYNOMIALS)
def test_strides_and_offset_make_up_an_affine_index(x: Polynomial) -> None:
    if x.is_affine():
        i, j = Polynomial.symbol(ATOMS[2]), Polynomial.symbol(ATOMS[3])
        assert x == x.without([1, 2]) + x.stride(1) * i + x.stride(2) * j


def test_operands_strides_and_extents_are_expressions_of_the_caller() -> None:
    nest = only(dot("A[(size_t)i * K + k]", "B[k * N + j]"))
    assert (nest.m, nest.n, nest.k) == ("(ptrdiff_t)M", "(ptrdiff_t)N", "(ptrdiff_t)K")
    assert (nest.a.row_stride, nest.a.column_stride) == ("(ptrdiff_t)K", "1")
    assert (nest.b.row_stride, nest.b.column_stride) == ("(ptrdiff_t)N", "1")
    assert (nest.alpha, nest.beta, nest.line) == ("1", "0", 4)


def test_a_transposed_operand_shows_in_its_strides() -> None:
    nest = only(dot("A[k * M + i]", "B[j * K + k]"))
    assert (nest.a.row_stride, nest.a.column_stride) == ("1", "(ptrdiff_t)M")
    assert (nest.b.row_stride, nest.b.column_stride) == ("1", "(ptrdiff_t)K")


def test_factors_may_be_swapped_and_c_may_be_column_major() -> None:
    nest = only(dot("B[k + j * K]", "A[i + k * M]", "C[i + j * M] = s;"))
    assert nest.c.column_stride == "1"
    assert {nest.a.name, nest.b.name} == {"A", "B"}
    assert nest.n == "(ptrdiff_t)M"


def test_offsets_and_shifted_loops_move_the_base_pointers() -> None:
    nest = only("""
    for (int i = 2; i <= M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0;
            for (int k = 1; k < K; k++) s += A[i * K + k] * B[k * N + j + 5];
            C[i * N + j] = s;
        }""")
    assert nest.m == "-1 + (ptrdiff_t)M"
    assert nest.k == "-1 + (ptrdiff_t)K"
    assert nest.a.pointer == "A + (1 + 2 * (ptrdiff_t)K)"
    assert nest.b.pointer == "B + (5 + (ptrdiff_t)N)"


@pytest.mark.parametrize(
    ("store", "alpha", "beta"),
    [
        ("C[i * N + j] = s;", "1", "0"),
        ("C[i * N + j] += s;", "1", "1"),
        ("C[i * N + j] -= 2.0f * s;", "2.0f * -1", "1"),
        ("C[i * N + j] = alpha * s + beta * C[i * N + j];", "alpha", "beta"),
        ("C[i * N + j] = s / scale;", "(1.0 / (scale))", "0"),
        ("const float v = -s; C[i * N + j] = v;", "-1", "0"),
    ],
)
def test_scale_factors_become_alpha_and_beta(store: str, alpha: str, beta: str) -> None:
    head = HEAD.replace("int K", "int K, float alpha, float beta, float scale")
    nest = only(dot("A[i * K + k]", "B[k * N + j]", store), head)
    assert (nest.alpha, nest.beta) == (alpha, beta)
    assert nest.epilogue == ""


def test_a_sum_that_starts_at_its_own_element_is_added_to_it() -> None:
    assert only(dot("A[i * K + k]", "B[k * N + j]", start="C[i * N + j]")).beta == "1"


def test_what_follows_a_sum_is_kept_as_an_epilogue() -> None:
    nest = only(dot("A[i * K + k]", "B[k * N + j]", "C[i * N + j] = s > 0 ? s : 0;"))
    assert "float s = C[(ptrdiff_t)N * i + (ptrdiff_t)j];" in nest.epilogue
    assert "s > 0 ? s : 0" in nest.epilogue
    assert "k++" not in nest.epilogue


def test_loops_in_front_that_clear_c_belong_to_the_product() -> None:
    nest = only("""
    for (int x = 0; x < M; x++) for (int y = 0; y < N; y++) C[x * N + y] = 0;
    for (int i = 0; i < M; i++) for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++) C[i * N + j] += A[i * K + k] * B[k * N + j];""")
    assert nest.beta == "0"


def test_clearing_only_a_part_leaves_the_loops_alone() -> None:
    nest = only("""
    for (int x = 0; x < M; x++) for (int y = 1; y < N; y++) C[x * N + y] = 0;
    for (int i = 0; i < M; i++) for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++) C[i * N + j] += A[i * K + k] * B[k * N + j];""")
    assert nest.beta == "1"
    assert nest.line == 5


def test_a_batch_is_found_at_any_depth() -> None:
    nest = only("""
    for (int i = 0; i < M; i++) for (int b = 0; b < 9; b++) for (int j = 0; j < N; j++) {
        float s = 0;
        for (int k = 0; k < K; k++) s += A[(b * M + i) * K + k] * B[(b * K + k) * N + j];
        C[(b * M + i) * N + j] = s;
    }""")
    assert [(loop.name, loop.extent) for loop in nest.batch] == [("b", "9")]
    assert "b" in nest.a.pointer


MACROS = """
#define AT(x, r, c, ld) ((x)[(size_t)(r) * (ld) + (c)])
#define OUT(r, c) C[(r) * N + (c)]"""


def test_macros_are_expanded_to_be_understood() -> None:
    nest = only(dot("AT(A, i, k, K)", "AT(B, k, j, N)", "OUT(i, j) = s;"), before=MACROS)
    assert (nest.a.row_stride, nest.b.row_stride) == ("(ptrdiff_t)K", "(ptrdiff_t)N")


def test_a_local_that_shadows_itself_is_read_once() -> None:
    store = "const float t = s * 2; { const float t = t + 1; C[i * N + j] = t; }"
    assert only(dot("A[i * K + k]", "B[k * N + j]", store)).beta == "0"


def test_a_nest_in_a_loop_that_stays_is_placed_by_its_variable() -> None:
    inner = dot("A[i * K + k]", "B[k * N + j + 8 * t]")
    nest = only(f"for (int t = 2; t < 9; t += 3) {{ {inner} C[t] += 1; }}")
    assert nest.batch == ()
    assert nest.b.pointer == "B + (8 * (ptrdiff_t)t)"


def test_a_macro_cannot_hide_that_c_is_read() -> None:
    body = dot("A[i * K + k]", "B[k * N + j]", "C[i * N + j] = s > OUT(0, 0) ? s : 0;")
    assert look(body, before=MACROS) == []


@pytest.mark.parametrize(
    "body",
    [
        dot("A[i * K + k]", "B[at(k, j)]"),
        dot("A[i * K + k * k]", "B[k * N + j]"),
        dot("A[i * K + k]", "B[k * N + j]").replace("k < K", "k < i"),
        dot("A[i * K + k]", "C[k * N + j]"),
        dot("A[i * K + k]", "B[k * N + j] * A[k]"),
        dot("A[i * K + k]", "B[k]"),
        dot("A[i * K + k]", "B[k * N + j]", start="1"),
        dot("A[i * K + k]", "B[k * N + j]").replace("k++", "k += 2"),
        dot("A[i * K + k]", "B[k * N + j]", "if (s > 0) C[i * N + j] = s;"),
        dot("A[i * K + k]", "B[k * N + j]", "C[i * N + j] = s; B2[j] = s;"),
        dot("A[i * K + k]", "B[k * N + j]", "C[i*N+j] = s > C[j] ? s : 0;"),
        dot("(A[i * K + k] + B[k * N + j])", "2"),
        dot("A[i * K + k]", "s2", "float u = v; { float v = u; C[i * N + j] = v; }"),
        dot("(f)() * A[i * K + k]", "B[at(k, j)]"),
    ],
)
def test_loops_of_another_form_are_left_alone(body: str) -> None:
    assert look(body) == []


def test_two_products_in_one_loop_are_found_one_by_one() -> None:
    inner = dot("A[i * K + k]", "B[k * N + j]")
    assert len(look(f"for (int t = 0; t < 3; t++) {{ {inner} {inner} }}")) == 2
