"""What the numbers of a reference's own draws are like. Nothing here decides about a kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from roofsmith.domain.values import Value
from roofsmith.judge.correctness.conditioning import Explored
from roofsmith.judge.correctness.distributions import LARGEST, Arithmetic

SAMPLED = 2**16
"""Numbers of an array that are looked at one by one: for different values, spread and bits."""
BFLOAT16_EXPONENT = 0x7F80


class InputFigures(Value):
    """An array that kernels read, in one draw."""

    nan: float
    """Share of its numbers."""
    bits_are_nan: bool
    """Whether integers of 16 bits hold some that are NaN or infinite when read as bfloat16."""
    different: int
    """How many different numbers there are, of `SAMPLED` at most."""
    spread: float
    """Standard deviation of those that are finite."""


class OutputFigures(Value):
    """What the reference makes of the same draw in float64."""

    nan: float
    """Share of its numbers, and so below."""
    infinite: float
    beyond: float
    """Finite, but not in the declared type."""
    dtype: str
    """Declared."""
    largest: float
    """In size, of those that are finite."""
    zeros_pass: bool = False
    """Whether zeros are within the tolerances, number by number."""
    constant: float | None = None
    """What would be within them throughout, as near to the results as that goes; None: nothing."""
    constant_error: float = 0.0
    """How far off that is, norm-wise."""


class DrawFigures(Value):
    """Both, by name."""

    inputs: dict[str, InputFigures]
    outputs: dict[str, OutputFigures]


def figures(reference: Explored, message: Mapping[str, Any], on: Arithmetic) -> DrawFigures:
    """Figures of one draw.

    Args:
        reference: draws and computes.
        message: `dims` and `seed` of the draw; `tolerances`, absolute and relative, where somebody
            gave any, in place of budgets; `None` for these: outputs aren't held against any.
        on: what the reference computes with.
    """
    values, outputs = reference.inputs(message["dims"], message["seed"])
    read = {n: v for n, v in values.items() if n not in outputs and _count(v)}
    truth = reference.expect(values, outputs, exact=True)
    return DrawFigures(
        inputs={name: _of_input(value, on) for name, value in read.items()},
        outputs={
            name: _of_output(value, on.dtype(values[name]), message["tolerances"], on)
            for name, value in truth.items()
            if _count(value)
        },
    )


def _count(value: Any) -> int:
    """Numbers of an array; what is none has none."""
    return int(np.prod(getattr(value, "shape", (0,)), dtype=np.int64))


def _of_input(value: Any, on: Arithmetic) -> InputFigures:
    sample = np.array(value.reshape(-1)[:: _count(value) // SAMPLED | 1].tolist())
    finite = sample[np.isfinite(sample)].astype(np.float64)
    bits = np.zeros(0, np.int64)
    if on.dtype(value) in ("int16", "uint16"):
        bits = sample.astype(np.int64)
    return InputFigures(
        nan=float(np.isnan(sample).mean()),
        bits_are_nan=bool((bits & BFLOAT16_EXPONENT == BFLOAT16_EXPONENT).any()),
        different=len(np.unique(sample)),
        spread=min(float(finite.std()), LARGEST["float64"]) if finite.size else 0.0,
    )


def _of_output(
    truth: Any, dtype: str, tolerances: tuple[float, float] | None, on: Arithmetic
) -> OutputFigures:
    count, exact = _count(truth), on.double(truth)
    sizes = abs(exact)
    nan = exact != exact
    infinite = sizes == math.inf
    beyond = (sizes > LARGEST.get(dtype, math.inf)) & ~infinite
    largest = float(on.xp.where(nan | infinite, 0.0, sizes).max())
    found = OutputFigures(
        nan=float(nan.sum()) / count,
        infinite=float(infinite.sum()) / count,
        beyond=float(beyond.sum()) / count,
        dtype=dtype,
        largest=largest,
    )
    if tolerances is None or found.nan or found.infinite:
        return found
    room = tolerances[0] + (tolerances[1] if on.is_floating(truth) else 0.0) * sizes
    low, high = float((exact - room).max()), float((exact + room).min())
    passing, varies = low <= 0.0 <= high, float(exact.max()) > float(exact.min())
    if low > high or largest == 0.0 or not (passing or varies):
        return found
    constant = min(max(float(exact.mean()), low), high)
    off = float(((exact / largest - constant / largest) ** 2).sum()) ** 0.5
    size = float(((exact / largest) ** 2).sum()) ** 0.5
    return found.model_copy(
        update={
            "zeros_pass": passing,
            "constant": constant,
            "constant_error": off / size,
        }
    )
