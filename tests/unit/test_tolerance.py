from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from roofsmith.analysis.tolerance import (
    ELEMENT_FLOOR_EPS,
    LARGEST_ERROR,
    NORM_FLOOR_EPS,
    Budget,
    Errors,
    budget_for,
    measure,
    row_length,
)

F32 = NDArray[np.float32]
EPS = float(np.finfo(np.float32).eps)
NO_ERROR = Errors(0.0, 0.0)
FACTOR = 10.0


def inside(found: Errors, budget: Budget) -> bool:
    return found.problem is None and found.norm <= budget.norm and found.element <= budget.element


def normal(*shape: int, seed: int = 0) -> F32:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def test_exact_is_zero() -> None:
    truth = np.arange(12.0).reshape(3, 4)
    assert measure(truth.astype(np.float32), truth) == NO_ERROR


def test_errors_by_hand() -> None:
    truth = np.array([[3.0, 4.0], [0.0, 0.0]])
    out = np.array([[3.0, 4.5], [0.0, 0.0]], dtype=np.float32)
    found = measure(out, truth)
    assert found.norm == pytest.approx(0.5 / 5)
    assert found.element == pytest.approx(0.5 / 4)  # |ref| exceeds the row's rms of 3.54


def test_tiny_elements_are_held_to_the_scale_of_their_row() -> None:
    truth = np.array([[1.0, -1.0, 1e-9, 1.0]])
    out = np.array([[1.0, -1.0, 3e-9, 1.0]], dtype=np.float32)
    assert measure(out, truth).element == pytest.approx(2e-9 / np.sqrt(0.75), rel=1e-3)


def test_zeros_on_a_tiny_row_are_found() -> None:
    """A row far below the others weighs nothing in the norm; its own scale tells."""
    truth = normal(64, 32).astype(np.float64)
    truth[17] *= 1e-12
    out = truth.astype(np.float32)
    assert inside(measure(out, truth), budget_for(NO_ERROR, "float32", factor=FACTOR, terms=1))
    out[17] = 0
    found = measure(out, truth)
    assert found.norm < NORM_FLOOR_EPS * EPS
    assert found.element >= 1.0


def test_anything_in_a_row_of_zeros_is_found() -> None:
    truth = normal(4, 16).astype(np.float64)
    truth[2] = 0
    out = truth.astype(np.float32)
    out[2, 3] = 1e-30
    assert measure(out, truth).element == LARGEST_ERROR


def test_all_zero_truth() -> None:
    truth = np.zeros((3, 3))
    assert measure(truth.astype(np.float32), truth) == NO_ERROR
    wrong = measure(np.full((3, 3), 1e-30, np.float32), truth)
    assert wrong.norm == wrong.element == LARGEST_ERROR


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_where_the_reference_is_finite(bad: float) -> None:
    truth = normal(5, 7).astype(np.float64)
    out = truth.astype(np.float32)
    out[1, 2] = bad
    found = measure(out, truth)
    assert found.norm == found.element == LARGEST_ERROR
    assert found.problem.startswith("1 of 35 elements")


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("instead", [0.0, np.nan, np.inf, -np.inf])
def test_nan_and_infinity_of_the_reference_must_be_matched(odd: float, instead: float) -> None:
    truth = normal(5, 7).astype(np.float64)
    truth[0, 3] = odd
    out = truth.astype(np.float32)
    same = np.array_equal([odd], [instead], equal_nan=True)
    out[0, 3] = instead
    assert (measure(out, truth).problem is None) is same


def test_the_rest_is_still_measured_beside_infinities() -> None:
    truth = normal(4, 4).astype(np.float64)
    truth[0, 0] = np.inf
    out = truth.astype(np.float32)
    assert measure(out, truth).norm < EPS
    out[2, 2] += 0.5
    assert measure(out, truth).element > 0.1


def test_what_overflows_in_the_declared_type_may_be_infinite() -> None:
    truth = np.array([1.0, 1e300])
    assert measure(np.array([1.0, np.inf], np.float32), truth) == NO_ERROR
    assert measure(np.array([1.0, 3e38], np.float32), truth).problem is not None


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_integers_are_exact(dtype: str) -> None:
    truth = np.arange(20).astype(dtype)
    budget = budget_for(NO_ERROR, dtype, factor=FACTOR, terms=1000)
    assert budget.norm == budget.element == 0
    assert measure(truth.copy(), truth) == NO_ERROR
    out = truth.copy()
    out[7] += 1
    found = measure(out, truth)
    assert found.problem == "1 of 20 integers differ"
    assert not inside(found, budget)


def test_integers_may_be_off_by_atol_and_by_nothing_else() -> None:
    truth = np.arange(100, dtype=np.uint8)
    out = truth.copy()
    out[::2] += 1
    assert measure(out, truth).problem == "50 of 100 integers differ"
    allowed = budget_for(NO_ERROR, "uint8", factor=FACTOR, terms=1, atol=1, rtol=0.5)
    assert measure(out, truth, allowed).problem is None
    out[7] -= 2
    assert measure(out, truth, allowed).problem == "1 of 100 integers differ"
    relative = budget_for(NO_ERROR, "uint8", factor=FACTOR, terms=1, rtol=0.5)
    assert measure(out, truth, relative).problem == "51 of 100 integers differ"


@pytest.mark.parametrize(
    ("shape", "row"),
    [
        ((), 1), ((5,), 5), ((4099,), 4099), ((1, 1), 1), ((7, 1), 7), ((9, 64), 64),
        ((4, 1024, 2), 16), ((500, 3, 3), 18), ((600, 8), 16), ((100, 5), 20), ((20000, 3), 24),
        ((3, 2, 2), 12), ((4099, 3), 3 * 4099), ((10, 1, 3), 30), ((8, 17), 17),
    ],
)  # fmt: skip
def test_rows_have_enough_elements_for_a_scale(shape: tuple[int, ...], row: int) -> None:
    assert row_length(shape) == row
    assert np.prod(shape, dtype=int) % row == 0


def test_large_integers_are_not_compared_as_floats() -> None:
    truth = np.array([2**62], dtype=np.int64)
    assert measure(truth + 1, truth).problem is not None


@pytest.mark.parametrize("shape", [(), (1,), (9,), (0,), (3, 0), (2, 3, 4)])
def test_every_shape(shape: tuple[int, ...]) -> None:
    truth = np.full(shape, 2.0)
    assert measure(truth.astype(np.float32), truth) == NO_ERROR
    if truth.size:
        assert measure(np.full(shape, 3.0, np.float32), truth).element == pytest.approx(0.5)


def test_atol_and_rtol_replace_the_element_half() -> None:
    budget = budget_for(NO_ERROR, "float32", factor=FACTOR, terms=1, atol=0.1, rtol=0.01)
    truth = np.array([[0.0, 100.0]])
    near = np.array([[0.0625, 100.5]], dtype=np.float32)
    assert measure(near, truth, budget).element == pytest.approx(0.0625 / 0.1)
    assert inside(measure(near, truth, budget), budget)
    far = measure(near + np.float32([[0.0625, 0]]), truth, budget)
    assert far.element == pytest.approx(1.25)
    assert not inside(far, budget)


def test_atol_leaves_the_norm_half_as_it_is() -> None:
    plain = budget_for(NO_ERROR, "float32", factor=FACTOR, terms=1)
    assert budget_for(NO_ERROR, "float32", factor=FACTOR, terms=1, atol=9.0).norm == plain.norm


def test_rtol_alone_allows_nothing_at_zero() -> None:
    budget = budget_for(NO_ERROR, "float32", factor=FACTOR, terms=1, rtol=0.01)
    truth = np.array([[0.0, 1.0]])
    assert measure(np.array([[0.0, 1.005]], np.float32), truth, budget).element <= 1
    found = measure(np.array([[1e-30, 1.0]], np.float32), truth, budget)
    assert found.element == LARGEST_ERROR


def test_budgets_have_a_floor_and_grow() -> None:
    least = budget_for(NO_ERROR, "float32", factor=FACTOR, terms=1)
    assert (least.norm, least.element) == (NORM_FLOOR_EPS * EPS, ELEMENT_FLOOR_EPS * EPS)
    honest = budget_for(Errors(1e-3, 1e-2), "float32", factor=FACTOR, terms=1)
    assert (honest.norm, honest.element) == pytest.approx((1e-2, 1e-1))
    assert budget_for(NO_ERROR, "float32", factor=FACTOR, terms=1e6).norm > least.norm
    assert budget_for(NO_ERROR, "float64", factor=FACTOR, terms=1).norm < least.norm
    assert honest.wider(least).norm == least.wider(honest).norm == honest.norm


def gemm_budget(a: F32, b: F32) -> tuple[NDArray[np.float64], Budget]:
    """What the judge allows a float32 GEMM: honest errors are NumPy's own."""
    truth = a.astype(np.float64) @ b.astype(np.float64)
    return truth, budget_for(measure(a @ b, truth), "float32", factor=FACTOR, terms=a.shape[1])


def rounded_to(values: F32, mantissa_bits: int) -> F32:
    """Round to nearest, ties to even, keeping this many explicit bits: 10 is TF32, 7 is bf16."""
    drop = 23 - mantissa_bits
    bits = values.view(np.uint32).astype(np.uint64)
    bits += (1 << (drop - 1)) - 1 + (bits >> drop & 1)
    return (bits >> drop << drop).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("k", [64, 256, 1024])
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_reduced_precision_gemm_is_outside(k: int, kind: str) -> None:
    rng = np.random.default_rng(k)
    a, b = (
        (
            rng.standard_normal(s, dtype=np.float32)
            if kind == "normal"
            else rng.random(s, np.float32)
        )
        for s in ((48, k), (k, 40))
    )
    truth, budget = gemm_budget(a, b)
    for mantissa_bits in (10, 7):
        found = measure(rounded_to(a, mantissa_bits) @ rounded_to(b, mantissa_bits), truth)
        assert not inside(found, budget), (found, budget)
    half = (a.astype(np.float16) @ b.astype(np.float16)).astype(np.float32)
    assert not inside(measure(half, truth), budget)


@pytest.mark.parametrize("k", [1, 7, 64, 256, 1024, 8192])
def test_every_honest_order_of_summation_is_inside(k: int) -> None:
    a, b = normal(24, k, seed=1), normal(k, 20, seed=2)
    truth, budget = gemm_budget(a, b)
    forward, backward = (np.zeros((24, 20), np.float32) for _ in range(2))
    lanes = np.zeros((8, 24, 20), np.float32)
    for step in range(k):  # the naive triple loop: one float32 accumulator
        forward += a[:, step, None] * b[None, step]
        backward += a[:, k - 1 - step, None] * b[None, k - 1 - step]
        lanes[step % 8] += a[:, step, None] * b[None, step]
    products = a[:, :, None] * b[None]
    pairwise = np.ascontiguousarray(products.transpose(0, 2, 1)).sum(axis=-1)
    fused = truth.astype(np.float32)  # sums kept in double precision
    for found in (a @ b, forward, backward, lanes.sum(axis=0), pairwise, fused):
        assert inside(measure(found, truth), budget), (measure(found, truth), budget)


@pytest.mark.parametrize("columns", [3, 100, 4096, 50_000])
def test_naive_softmax_is_inside_and_a_truncated_one_is_not(columns: int) -> None:
    x = normal(6, columns, seed=3)
    exact = x.astype(np.float64)
    truth = np.exp(exact - exact.max(axis=1, keepdims=True))
    truth /= truth.sum(axis=1, keepdims=True)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    honest = measure(powers / powers.sum(axis=1, keepdims=True), truth)
    budget = budget_for(honest, "float32", factor=FACTOR, terms=5 / 2)
    sequential = np.cumsum(powers, axis=1, dtype=np.float32)[:, -1:]
    if columns <= 4096:
        assert inside(measure(powers / sequential, truth), budget)
    coarse = rounded_to(powers, 10)
    assert not inside(measure(coarse / coarse.sum(axis=1, keepdims=True), truth), budget)
    no_tail = powers.copy()
    no_tail[:, -1] = 0
    assert not inside(measure(no_tail / no_tail.sum(axis=1, keepdims=True), truth), budget)


@given(st.integers(1, 6), st.integers(1, 6), st.floats(-100, 100), st.integers(0, 2**31))
def test_errors_do_not_depend_on_the_unit(rows: int, columns: int, power: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((rows, columns))
    out = truth * (1 + 1e-3 * rng.standard_normal((rows, columns)))
    unit = 2.0 ** round(power)
    plain, scaled = measure(out, truth), measure(out * unit, truth * unit)
    assert scaled.norm == pytest.approx(plain.norm)
    assert scaled.element == pytest.approx(plain.element)


@given(st.integers(0, 2**31), st.integers(0, 23))
def test_one_wrong_element_is_never_hidden(seed: int, where: int) -> None:
    truth = normal(4, 6, seed=seed).astype(np.float64)
    out = truth.astype(np.float32)
    out.reshape(-1)[where] += 0.01 * float(np.abs(truth).max())
    assert not inside(
        measure(out, truth), budget_for(NO_ERROR, "float32", factor=FACTOR, terms=1000)
    )


def test_what_cancelled_in_a_column_is_held_against_its_row() -> None:
    """Rows of one element have the scale of their neighbours."""
    truth = np.array([[1.0], [2.0], [1e-6]])
    out = truth + np.array([[0.0], [0.0], [1e-7]])
    assert measure(out, truth).element == pytest.approx(measure(out[:, 0], truth[:, 0]).element)
    assert measure(out, truth).element < 1e-6


def test_a_strained_budget_grows_by_what_its_draw_magnifies() -> None:
    budget = budget_for(NO_ERROR, "float32", factor=FACTOR, terms=1)
    strained = budget.strained(100.0, 10.0)
    assert strained.norm == pytest.approx(100 * budget.norm)
    assert strained.element == pytest.approx(10 * budget.element)
    given_by_user = budget_for(NO_ERROR, "float32", factor=FACTOR, terms=1, atol=1e-3)
    assert given_by_user.strained(100.0, 10.0).element == given_by_user.element


def test_no_strain_makes_zeros_right() -> None:
    budget = budget_for(Errors(0.6, 0.6), "float32", factor=FACTOR, terms=64)
    strained = budget.strained(1000.0, 1000.0)
    assert budget.norm < strained.norm < 1
    assert budget.element < strained.element < 1
    far = budget_for(NO_ERROR, "float32", factor=FACTOR, terms=64, rtol=2.0).strained(4.0, 4.0)
    assert far.norm == 2.0


def test_nobody_rounds_what_is_only_selected() -> None:
    x = np.sort(normal(4096))
    budget = budget_for(NO_ERROR, "float32", factor=FACTOR, terms=4096, selects=True)
    assert inside(measure(x, x.astype(np.float64), budget), budget)
    cut = (x.view(np.uint32) & ~np.uint32(255)).view(np.float32)
    assert not inside(measure(cut, x.astype(np.float64), budget), budget)


def test_errors_beyond_what_float64_holds_are_the_largest_there_are() -> None:
    """Of numbers near its end the error overflows, and so does what it is relative to."""
    truth = np.full((4, 64), 1.5e308)
    budget = Budget(1e-3, 1e-2, Errors(0.0, 0.0), own_scale=1.0)
    assert measure(-truth, truth, budget).norm == LARGEST_ERROR
    assert measure(truth, truth, budget).norm == 0.0
