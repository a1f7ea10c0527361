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


def unread_inputs(
    reference: Explored, drawn: Sequence[tuple[dict[str, Any], set[str]]], on: Arithmetic
) -> list[str]:
    """Arrays that are others in another draw, with which the reference computes the same."""
    (values, outputs), (others, _) = drawn[:2]
    same, found = same_inputs(drawn), []
    for name, value in values.items():
        if name in outputs or name in same or not getattr(value, "shape", None):
            continue
        try:
            truth, there = (
                reference.expect({**values, name: one[name]}, outputs, exact=True)
                for one in (values, others)
            )
        except Exception:  # noqa: BLE001  user code refuses such inputs, in whatever way
            continue
        pairs = ((on.double(truth[key]), on.double(there[key])) for key in truth)
        if all(bool(((one == it) | ((one != one) & (it != it))).all()) for one, it in pairs):
            found.append(name)
    return found


def is_fixed(reference: Explored, drawn: Sequence[tuple[dict[str, Any], set[str]]]) -> bool:
    """Whether every call computes the same."""
    try:
        one, other = (reference.expect(*draw, exact=True) for draw in drawn[:2])
    except Exception:  # noqa: BLE001  user code refuses such inputs, in whatever way
        return False
    return all(bool((other[name] == truth).all()) for name, truth in one.items())


def fan_in(
    reference: Explored, values: dict[str, Any], outputs: set[str], on: Arithmetic
) -> dict[str, float]:
    """How many inputs an element of each output depends on, where that is a few.

    Single inputs are changed, and the elements that change with them counted; the rows of the
    workload must be long enough to tell a few from all. An output that isn't there may depend on a
    row or more.
    """
    given = {k: v for k, v in values.items() if k not in outputs and on.is_floating(v)}
    long = [v for v in given.values() if elements(v) > ROW_IS_LONGER]  # no mere parameters
    rows = min((v.shape[-1] for v in long), default=0)
    try:
        truth = reference.expect(values, outputs, exact=True)
        changed = dict.fromkeys(truth, 0)
        for name, value in given.items():
            for key, most in _fan_out(reference, values, outputs, truth, name, on).items():
                changed[key] += elements(value) * most
    except Exception:  # noqa: BLE001  user code refuses such inputs, in whatever way
        return {}
    found = {key: some / max(elements(truth[key]), 1) for key, some in changed.items()}
    return {key: max(one, 1.0) for key, one in found.items() if 0 < one <= rows / ROW_IS_LONGER}


def _fan_out(
    reference: Explored,
    values: dict[str, Any],
    outputs: set[str],
    truth: Mapping[str, Any],
    name: str,
    on: Arithmetic,
) -> dict[str, int]:
    """The most elements of each output that change with one of an input, of some elements."""
    size, most = elements(values[name]), dict.fromkeys(truth, 0)
    for probe in range(PROBES):
        moved = on.double(values[name])
        moved.reshape(-1)[(2 * probe + 1) * size // (2 * PROBES)] *= 1.125
        found = reference.expect({**values, name: moved}, outputs, exact=True)
        for key, exact in truth.items():
            most[key] = max(most[key], int((found[key] != exact).sum()))
    return most


def elements(array: Any) -> int:
    """Of an array."""
    return int(np.prod(array.shape, dtype=np.int64))
