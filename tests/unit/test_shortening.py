"""Inputs as a narrower type would hold them."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roofsmith.judge.correctness.shortened_inputs import How, changed, round_to, shortened
from roofsmith.judge.host.arithmetic import HostArithmetic

ON = HostArithmetic()
NUMBERS = st.floats(-1e30, 1e30)


@given(hnp.arrays(np.float64, 20, elements=NUMBERS), st.integers(2, 24), st.booleans())
def test_shortened_inputs_are_the_nearest_or_the_next_towards_zero(
    x: np.ndarray, bits: int, truncate: bool
) -> None:
    made = round_to(x, bits, np, truncate=truncate)
    assert (np.abs(made - x) <= 2.0 ** (1 - bits) * np.abs(x)).all()
    assert np.array_equal(round_to(made, bits, np), made)
    if truncate:
        assert (np.abs(made) <= np.abs(x)).all()
    inputs = {"x": x, "n": 3}
    same = shortened(inputs, bits, ON, how="cut" if truncate else "rounded")
    assert np.array_equal(same["x"], made)
    assert same["n"] == 3


@pytest.mark.parametrize(
    ("how", "axes"),
    [("scaled", (None, None)), ("scaled by row", (1, 1)), ("scaled by column", (1, 0))],
)
@given(st.data())
def test_integers_times_a_scale(
    how: How, axes: tuple[int | None, int | None], data: st.DataObject
) -> None:
    inputs = {
        name: data.draw(hnp.arrays(np.float64, (3, 4), elements=st.floats(-1e3, 1e3, width=32)))
        for name in "ab"
    }
    made = shortened(inputs, 8, ON, how=how)
    for (name, x), axis in zip(inputs.items(), axes, strict=True):
        step = np.abs(x).max(axis=axis, keepdims=True) / 127
        assert (np.abs(made[name] - x) <= step * 0.5000001).all()
        steps = made[name] / np.where(step > 0, step, 1.0)
        assert np.abs(steps - np.rint(steps)).max() <= 1e-9
    alone = shortened(inputs, 8, ON, how=how, only=["b"])
    assert np.array_equal(alone["b"], made["b"])
    assert alone["a"] is inputs["a"]
    assert changed(inputs, None, ON) is inputs
    told = changed(inputs, ["shortened", 8, how, ["a"]], ON)
    assert np.array_equal(told["a"], shortened(inputs, 8, ON, how=how, only=["a"])["a"])


@pytest.mark.parametrize("how", get_args(How))
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4)])
def test_a_gpus_arithmetic_shortens_alike(how: How, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from roofsmith.judge.gpu.arithmetic import TorchArithmetic

    inputs = {
        name: np.asarray(np.random.default_rng(seed).standard_normal(shape, np.float32))
        for seed, name in enumerate("ab")
    }
    tensors = {name: torch.from_numpy(x.copy()) for name, x in inputs.items()}
    host = shortened(inputs, 8, ON, how=how)
    made = shortened(tensors, 8, TorchArithmetic(), how=how)
    for name, x in host.items():
        assert np.array_equal(made[name].numpy(), x)
