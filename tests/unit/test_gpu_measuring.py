"""The device's measure of errors agrees with the host's, number for number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roofsmith.analysis.tolerance import LARGEST_ERROR
from roofsmith.analysis.tolerance import measure as on_host

torch = pytest.importorskip("torch", reason="torch isn't installed")

from roofsmith.judge.correctness.sampled_blocks import STRETCH  # noqa: E402
from roofsmith.judge.gpu import measuring  # noqa: E402
from roofsmith.judge.gpu.measuring import (  # noqa: E402
    FIELDS,
    compare,
    measure,
)
from roofsmith.judge.gpu.tensors import STACKED_BYTES, any_differ  # noqa: E402

SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=6)
NUMBERS = st.floats(-1e6, 1e6, width=32)
ODD = st.sampled_from([math.inf, -math.inf, math.nan])


@st.composite
def pairs(draw: st.DrawFn, elements: st.SearchStrategy[float]) -> tuple[np.ndarray, np.ndarray]:
    shape = draw(SHAPES)
    truth = draw(hnp.arrays(np.float64, shape, elements=elements))
    noise = draw(hnp.arrays(np.float64, shape, elements=st.floats(-1e-3, 1e-3)))
    with np.errstate(invalid="ignore", over="ignore"):
        return (truth * (1 + noise)).astype(np.float32), truth


def on_device(
    out: np.ndarray, truth: np.ndarray, atol: float | None = None, rtol: float | None = None
) -> dict[str, float]:
    found = measure(torch.from_numpy(out)[None], torch.from_numpy(truth)[None], atol, rtol)
    assert tuple(found.shape) == (1, len(FIELDS))
    return dict(zip(FIELDS, found[0].tolist(), strict=True))


@given(pairs(NUMBERS))
def test_finite_numbers_agree(pair: tuple[np.ndarray, np.ndarray]) -> None:
    out, truth = pair
    host, device = on_host(out, truth), on_device(out, truth)
    assert device["norm"] == pytest.approx(min(host.norm, LARGEST_ERROR), rel=1e-9, abs=1e-300)
    assert min(device["element"], LARGEST_ERROR) == pytest.approx(host.element, rel=1e-9)
    assert device["mismatched"] == device["not_finite"] == device["nan"] == 0


@given(pairs(st.one_of(NUMBERS, ODD)))
def test_infinities_and_nan_must_match(pair: tuple[np.ndarray, np.ndarray]) -> None:
    out, truth = pair
    host, device = on_host(out, truth), on_device(out, truth)
    problem = device["mismatched"] > 0 or device["not_finite"] > 0
    assert problem == (host.problem is not None)
    if not problem:
        assert device["norm"] == pytest.approx(host.norm, rel=1e-9, abs=1e-300)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=20))
def test_integers_are_exact(values: list[int]) -> None:
    truth = np.array(values, dtype=np.int32)
    out = truth.copy()
    assert on_device(out, truth)["mismatched"] == 0
    out[0] += 1
    assert on_device(out, truth)["mismatched"] == 1


def test_tolerances_replace_the_element_half() -> None:
    truth = np.array([[1.0, 100.0]])
    out = np.array([[1.5, 101.0]], dtype=np.float32)
    assert on_device(out, truth, atol=0.5, rtol=0.01)["element"] == pytest.approx(1 / 1.02)


@pytest.mark.parametrize("size", [1e-200, 1e160, 1e300])
def test_numbers_whose_squares_no_float64_holds_have_errors(size: float) -> None:
    truth = size * np.arange(1.0, 65.0).reshape(4, 16)
    off = truth * (1 + 1e-3)
    host, device = on_host(off, truth), on_device(off, truth)
    for found in (host.norm, host.element, device["norm"], device["element"]):
        assert found == pytest.approx(1e-3, rel=1e-9)
    assert on_host(truth.copy(), truth).norm == on_device(truth, truth)["norm"] == 0


def test_poison_is_counted() -> None:
    out = np.frombuffer(b"\xff" * 16, dtype=np.float32).copy()
    found = on_device(out, np.ones(4))
    assert found["nan"] == found["not_finite"] == 4


def test_every_call_has_a_row_of_its_own() -> None:
    out = torch.tensor([[1.0, 2.0], [1.0, 3.0]])
    found = measure(out, torch.tensor([[1.0, 2.0], [1.0, 2.0]]), None, None)
    assert found[0, 0] == 0
    assert found[1, 0] > 0


@pytest.mark.parametrize("beyond", [1, STRETCH - 1])
def test_the_end_of_a_long_vector_is_compared_as_often_as_the_rest(
    beyond: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "SPOT_ELEMENTS", 4 * STRETCH)
    truth = torch.ones(4 * STRETCH + beyond)
    out = truth.clone()
    out[-1] = 2
    seen = [bool(compare([out], [truth], (None, None), whole=False)[0, 0] > 0) for _ in range(60)]
    assert sum(seen) > 15, "four rows of five, drawn with replacement: 59%"


def test_rows_are_compared_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "SPOT_ELEMENTS", 2**12)
    truth = torch.arange(2.0**14).reshape(-1, 64)
    assert compare([truth.clone()], [truth], (None, None), whole=False)[0, 0] == 0
    assert compare([truth + 1e6], [truth], (None, None), whole=False)[0, 0] > 0


def test_a_row_that_is_left_out_is_soon_seen_however_long_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every call by itself, and wherever a reference's own seed would have looked."""
    monkeypatch.setattr(measuring, "SPOT_ELEMENTS", 2**17)
    truth = torch.randn(64, 2**13)
    out = truth.clone()
    out[17] = 0
    seen = 0
    for _ in range(20):
        torch.manual_seed(0)
        found = compare([out] * 4, [truth] * 4, (None, None), whole=False)
        seen += int((found[:, 0] > 0.01).sum())
    assert 15 < seen < 60, "a stretch of it is among 32 of a call with probability 0.4"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_single_nan_is_seen_wherever_it_is(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also beyond what is compared, and beside infinities; where the reference has as many, too."""
    monkeypatch.setattr(measuring, "SPOT_ELEMENTS", 2**12)
    truth = torch.zeros(2**8, 2**8, dtype=dtype)
    truth[0, 0], truth[0, 1] = torch.inf, -torch.inf
    out = truth.clone()
    out[200, 7] = torch.nan
    masked = truth.clone()
    masked[0, :5] = torch.nan
    found = compare(
        [truth, out, masked, out], [truth, truth, masked, masked], (None, None), whole=False
    )
    columns = [FIELDS.index("nan"), FIELDS.index("nan_expected")]
    assert found[:, columns].tolist() == [[0, 0], [1, 0], [5, 5], [1, 5]]


@given(st.integers(0, 2**32 - 1), st.sampled_from([(2**15,), (3, 9000), (2, 2, 5000)]))
def test_a_stretch_is_no_worse_than_its_whole_row(seed: int, shape: tuple[int, ...]) -> None:
    """Its scale is the row's: rounding is not held against what is small beside the rest."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(shape) * np.exp(rng.uniform(-9, 9, shape))
    out = truth + np.abs(truth).max() * 1e-7 * rng.standard_normal(shape)
    whole = measure(torch.from_numpy(out)[None], torch.from_numpy(truth)[None], None, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "SPOT_ELEMENTS", 2**13)
        tensors = [torch.from_numpy(out)], [torch.from_numpy(truth)]
        part = compare(*tensors, (None, None), whole=False)
    assert part[0, 1] <= whole[0, 1] * (1 + 1e-9)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 4096, STACKED_BYTES + 8, STACKED_BYTES + 9])
@pytest.mark.parametrize("offset", [0, 1, 8])
def test_a_single_byte_that_differs_is_seen(size: int, offset: int) -> None:
    """Together or one by one, word by word or byte by byte: at either end, and of that call."""
    one = torch.arange(offset + size, dtype=torch.uint8)[offset:]
    ones, others = [one] * 3, [one.clone() for _ in range(3)]
    assert any_differ(ones, others).tolist() == [[False]] * 3
    for place in {0, size - 1} if size else ():
        others[1][place] += 1
        assert any_differ(ones, others).tolist() == [[False], [True], [False]]
        others[1][place] -= 1
