"""Inputs as a narrower type would hold them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from roofsmith.judge.correctness.distributions import Arithmetic

How = Literal["rounded", "cut", "scaled", "scaled by row", "scaled by column"]
"""Numbers get significands of so many bits, rounded to nearest or cut off; or they become integers
of so many bits times a scale, one for an array, a row, or a column. Of several arrays that are
scaled by column, the first is scaled by row: as the factors of a product are."""


def shortened(
    values: Mapping[str, Any],
    bits: int,
    on: Arithmetic,
    *,
    how: How = "rounded",
    only: Collection[str] | None = None,
) -> dict[str, Any]:
    """Floating inputs, or some of them, in float64, with no more than `bits` bits.

    Args:
        values: by name.
        bits: of a significand, or of a signed integer.
        on: NumPy or torch.
        how: they are shortened.
        only: these.
    """
    made = dict(values)
    keys = [k for k, v in values.items() if on.is_floating(v) and (only is None or k in only)]
    for key in keys:
        x = on.double(values[key])
        if how in {"rounded", "cut"}:
            made[key] = round_to(x, bits, on.xp, truncate=how == "cut")
        else:
            is_a_first_factor = key == keys[0] and len(keys) > 1
            made[key] = scaled_to(x, bits, on.xp, _axis(how, x.ndim, of_rows=is_a_first_factor))
    return made


def changed(values: Mapping[str, Any], change: Sequence[Any] | None, on: Arithmetic) -> Any:
    """Inputs after a change.

    Args:
        values: by name.
        change: `["shortened", bits, how, names]`, or None for none.
        on: NumPy or torch.
    """
    if change is None:
        return values
    _, bits, how, names = change
    return shortened(values, bits, on, how=how, only=names)


def round_to(x: Any, bits: int, xp: Any, *, truncate: bool = False) -> Any:
    """An array of float64 with significands of `bits` bits, rounded to nearest or cut off."""
    significand, exponent = xp.frexp(x)
    scaled = significand * 2.0**bits
    kept = xp.trunc(scaled) if truncate else xp.round(scaled)
    return xp.ldexp(kept / 2.0**bits, exponent)


def scaled_to(x: Any, bits: int, xp: Any, axis: int | None) -> Any:
    """An array of float64 as signed integers of `bits` bits, the largest of them that of the
    array, or of an axis, times a scale."""
    sizes = abs(x)
    largest = sizes.max() if axis is None else xp.amax(sizes, axis, keepdims=True)
    step = largest / (2.0 ** (bits - 1) - 1.0)
    return xp.round(x / xp.where(step > 0, step, 1.0 + 0.0 * step)) * step


def _axis(how: How, dimensions: int, *, of_rows: bool) -> int | None:
    """Along which numbers share a scale; None: all do."""
    if how == "scaled" or dimensions < 2:
        return None
    return -1 if of_rows or how == "scaled by row" else -2
