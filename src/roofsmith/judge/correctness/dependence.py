"""What a reference's outputs depend on, found from the reference alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from roofsmith.judge.correctness.conditioning import Explored
    from roofsmith.judge.correctness.distributions import Arithmetic

PROBES = 3
"""Elements of an input that are changed to see which outputs depend on them."""
ROW_IS_LONGER = 4
"""Times: dependence on so much less than a row is taken for a neighbourhood."""


def same_inputs(drawn: Sequence[tuple[Mapping[str, Any], set[str]]]) -> list[str]:
    """Arrays that are read, and are the same in all of these draws."""
    first, outputs = drawn[0]
    return [
        name
        for name, value in first.items()
        if name not in outputs
        and getattr(value, "shape", None)
        and all(bool((other[name] == value).all()) for other, _ in drawn[1:])
    ]


def is_fixed(reference: Explored, drawn: Sequence[tuple[dict[str, Any], set[str]]]) -> bool:
    """Whether every call computes the same."""
    try:
        one, other = (reference.expect(*draw, exact=True) for draw in drawn[:2])
    except Exception:  # noqa: BLE001  user code refuses such inputs, in whatever way
        return False
    return all(bool((other[name] == truth).all()) for name, truth in one.items())


def fan_in(
    reference: Explored, values: dict[str, Any], outputs: set[str], on: Arithmetic
) -> float | None:
    """How many inputs an output depends on, if that is a few; None if it may be a row or more.

    Single inputs are changed, and the outputs that change with them counted; the rows of the
    workload must be long enough to tell a few from all.
    """
    given = {k: v for k, v in values.items() if k not in outputs and on.is_floating(v)}
    long = [v for v in given.values() if elements(v) > ROW_IS_LONGER]  # no mere parameters
    rows = min((v.shape[-1] for v in long), default=0)
    try:
        truth = reference.expect(values, outputs, exact=True)
        changed = sum(
            elements(value) * _fan_out(reference, values, outputs, truth, name, on)
            for name, value in given.items()
        )
    except Exception:  # noqa: BLE001  user code refuses such inputs, in whatever way
        return None
    found = changed / max(sum(map(elements, truth.values())), 1)
    return max(found, 1.0) if 0 < found <= rows / ROW_IS_LONGER else None


def _fan_out(
    reference: Explored,
    values: dict[str, Any],
    outputs: set[str],
    truth: Mapping[str, Any],
    name: str,
    on: Arithmetic,
) -> int:
    """The most outputs that change with one element of an input, of some elements."""
    size, most = elements(values[name]), 0
    for probe in range(PROBES):
        moved = on.double(values[name])
        moved.reshape(-1)[(2 * probe + 1) * size // (2 * PROBES)] *= 1.125
        found = reference.expect({**values, name: moved}, outputs, exact=True)
        most = max(most, sum(int((found[key] != truth[key]).sum()) for key in truth))
    return most


def elements(array: Any) -> int:
    """Of an array."""
    return int(np.prod(array.shape, dtype=np.int64))
