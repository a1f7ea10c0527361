"""How far off outputs may be on inputs that `setup` doesn't draw: as far as moving takes a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from roofsmith.analysis.tolerance import Budget, Errors, measure
from roofsmith.judge.correctness.rounding import JOLTS, jolt, jolted, room_for_rounding
from roofsmith.judge.host.arithmetic import HostArithmetic

N, TAPS = 200, 17
SPIKES = {"float32": 2.0**20, "float16": 2.0**4}
BUDGET = Budget(2.0**-10, 2.0**-7, Errors(0.0, 0.0))
"""An element may be off by more than all of them together."""
FREE = {"x": 0, "w": 0}
Found = tuple[Errors, tuple[float, float] | None]
"""How wrong an output is, and what it may be."""


class Convolution:
    """With a spike in either input, whose product lies beyond the edge of the output."""

    def __init__(self, dtype: str, narrow: Callable[..., Any], wide: Callable[..., Any]) -> None:
        rng = np.random.default_rng(0)
        x, w = rng.standard_normal(N + TAPS - 1), rng.standard_normal(TAPS)
        x[0] = w[-1] = SPIKES[dtype]
        self.values: dict[str, Any] = {"x": narrow(x), "w": narrow(w)}
        self._narrow, self._wide = narrow, wide

    def expect(self, values: Mapping[str, Any], _: set[str], *, exact: bool) -> dict[str, Any]:
        x, w = (self._wide(values[name]) for name in ("x", "w"))
        y = sum(w[k] * x[k : k + N] for k in range(TAPS))
        return {"y": y if exact else self._narrow(y)}


class Drawn:
    """Stands in for `Draws`: one slot, in this process."""

    distribution = "a lone spike"

    def __init__(self, dtype: str) -> None:
        self.reference: Any = Convolution(dtype, lambda a: a.astype(dtype), np.float64)
        self._made: dict[bool, NDArray[Any]] = {}
        for exact in (False, True):
            self.expect(0, exact=exact)

    def is_ordered(self, name: str) -> bool:
        return False

    def may_jump(self, name: str) -> bool:
        return False

    def expect(self, slot: int, *, exact: bool) -> None:
        self._made[exact] = self.reference.expect(self.reference.values, {"y"}, exact=exact)["y"]

    def expected(self, slot: int, name: str, *, exact: bool) -> NDArray[Any]:
        return self._made[exact]

    def jolt(self, slot: int, way: tuple[int, Any, str], budget: Budget) -> Any:
        values, bounds = self.reference.values, [self._made[False], self._made[True]]
        return jolt(self.reference, values, {"y"}, (FREE, *way), budget, bounds, HostArithmetic())


def off_by(shares: NDArray[Any], dtype: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """An output that is off by these shares of its root mean square, and what is right."""
    truth = Drawn(dtype).expected(0, "y", exact=True)
    return (truth + shares * np.sqrt(np.square(truth).mean())).astype(dtype), truth


def on_host(shares: NDArray[Any], dtype: str = "float32") -> Found:
    out, truth = off_by(shares, dtype)
    room = room_for_rounding(Drawn(dtype), 0, "y", out, BUDGET)  # type: ignore[arg-type]
    return measure(out, truth), None if room is None else (room.norm, room.element)


def on_device(shares: NDArray[Any], dtype: str = "float32") -> Found:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from roofsmith.judge.gpu import rounding
    from roofsmith.judge.gpu.arithmetic import TorchArithmetic

    kind = getattr(torch, dtype)
    reference: Any = Convolution(dtype, lambda a: torch.as_tensor(a).to(kind), torch.Tensor.double)
    out, truth = off_by(shares, dtype)
    wrong = rounding.Wrong(
        "y",
        torch.from_numpy(out),
        reference.values,
        {"y"},
        BUDGET,
        is_other=True,
        may_jump=False,
        is_ordered=False,
    )
    room = rounding.room_for_rounding(reference, wrong, FREE, set(), TorchArithmetic())
    return measure(out, truth), room


EITHER = pytest.mark.parametrize("found", [on_host, on_device])
MANY = hnp.arrays(np.float64, N, elements=st.floats(-1, 1), fill=st.nothing())


@EITHER
@given(shares=MANY, size=st.sampled_from([2.0**-9, 2.0**-8, 2.0**-6, 2.0**-3]))
@settings(max_examples=50, deadline=None)
def test_what_moving_explains_element_by_element_it_explains_together(
    found: Callable[..., Found], shares: NDArray[Any], size: float
) -> None:
    errors, room = found(size * shares)
    assert room[0] >= errors.norm * (1 - 1e-9)
    assert room[1] >= errors.element * (1 - 1e-9)


@EITHER
@pytest.mark.parametrize("size", [2.0**-9, 2.0**-8, 2.0**-6])
def test_small_errors_get_no_less_room_than_large_ones(
    found: Callable[..., Found], size: float
) -> None:
    """Elements within their budget may be beyond it together, as those of a Fourier transform."""
    errors, room = found(np.full(N, size))
    assert errors.norm > BUDGET.norm
    assert room is not None


@EITHER
@pytest.mark.parametrize("wrong", [1, N // 2, N])
def test_no_element_gets_more_than_moving_explains(found: Callable[..., Found], wrong: int) -> None:
    shares = np.zeros(N)
    shares[:wrong] = 8.0
    assert found(shares)[1] is None


@EITHER
def test_in_half_precision_moving_explains_single_elements_alone(
    found: Callable[..., Found],
) -> None:
    """It takes all of them so far that sums in fewer bits would be explained."""
    errors, room = found(np.full(N, 2.0**-8), "float16")
    assert errors.norm > BUDGET.norm
    assert room is None
    single = np.zeros(N)
    single[0] = 2.0**-5
    assert found(single, "float16")[1] is not None


@pytest.mark.parametrize("size", ["typical", "largest"])
@pytest.mark.parametrize("sign", [0, 1])
def test_small_inputs_are_moved_up_as_often_as_down_beside_a_huge_one(size: Any, sign: int) -> None:
    """Else all of them move up together, and explain a sum that lacks half of its terms."""
    x = np.random.default_rng(0).random(4096, np.float32)
    x[7] = 2.0**24
    total = x.sum(dtype=np.float64) - x[7]
    for seed in range(JOLTS):
        moved = jolted({"x": x}, {"x": sign}, seed, size, HostArithmetic())["x"]
        assert (np.sign(moved) == np.sign(x)).all()
        there = moved.sum(dtype=np.float64) - moved[7]
        assert abs(there / total - 1) < 0.05


def test_zeros_and_what_is_not_finite_stay_where_others_are_moved() -> None:
    x = np.array([0.0, np.inf, -np.inf, np.nan, 1.0, -1e30], np.float32)
    for seed in range(1, JOLTS):
        moved = jolted({"x": x}, {"x": 0}, seed, "largest", HostArithmetic())["x"]
        assert np.array_equal(moved[:4], x[:4], equal_nan=True)
        assert moved[4] != 1.0
