"""Parts of long rows that are compared after a timed call on the host."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.tolerance import measure, root_mean_squares
from roofsmith.judge.correctness.checking import _RowPicker
from roofsmith.judge.correctness.sampled_blocks import STRETCH

SHAPES = st.sampled_from([(2**15,), (2**15 + 7,), (3, 9000), (2, 2, 5000), (300, 64), (9000, 3)])


@given(st.integers(0, 2**32 - 1), SHAPES)
def test_a_part_is_no_worse_than_its_whole_row(seed: int, shape: tuple[int, ...]) -> None:
    """Its scale is the row's: rounding is not held against what is small beside the rest."""
    rng = np.random.default_rng(seed)
    truth = np.cumsum(rng.standard_normal(shape), axis=-1) * np.exp(rng.uniform(-9, 9, shape))
    out = truth + np.abs(truth).max() * 1e-7 * rng.standard_normal(shape)
    rows = _RowPicker(truth, 2**13)
    assert not rows.picks_all
    part = measure(rows(out), rows(truth), scale=rows.scale)
    assert part.element <= measure(out, truth).element * (1 + 1e-9)


@given(st.integers(0, 2**32 - 1), SHAPES)
def test_every_element_is_picked_before_long(seed: int, shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    numbers = np.arange(size).reshape(shape)
    missed = set(np.random.default_rng(seed).choice(size, 8)) | {0, size - 1}
    for _ in range(200):
        missed -= set(_RowPicker(numbers, 2**13)(numbers).ravel().tolist())
        if not missed:
            return
    raise AssertionError(missed)


def test_small_arrays_are_compared_whole() -> None:
    array = np.ones((4, 8))
    rows = _RowPicker(array, 32)
    assert rows.picks_all
    assert rows(array) is array


def test_long_rows_are_compared_in_many_places() -> None:
    array = np.ones((4, 2**15), np.float32)
    rows = _RowPicker(array, 2**14)
    assert rows(array).shape == (4, STRETCH)
    assert rows.scale.tolist() == [1.0] * 4


def test_squares_of_what_float64_holds_do_not_overflow_or_vanish() -> None:
    rows = np.array([[3.0, 4.0], [3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0], [np.inf, 5.0]])
    expected = np.array([5.0, 5e200, 5e-200, 0.0, 5.0]) / np.sqrt(2)
    np.testing.assert_allclose(root_mean_squares(rows), expected, rtol=1e-12)
