"""Is what a kernel wrote right? Within the error budget, and inside its own arrays."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from roofsmith.analysis.tolerance import Errors, measure
from roofsmith.domain.outcome import Failure, Incorrect
from roofsmith.domain.target import Tolerance
from roofsmith.judge.arena import Arena
from roofsmith.judge.budgets import Budgets, Finding, too_wrong
from roofsmith.judge.oracle import Draws

FULL_ELEMENTS = 2**22
"""Up to this many elements of an output are compared in a check; beyond it, random rows."""
SPOT_ELEMENTS = 2**17
"""The same for a timed call. The rows are chosen after the call, so none is safe to skip."""

Array = NDArray[np.generic]


class Checker:
    """Judges outputs for one target; learns the budgets from the reference as it goes."""

    def __init__(self, tolerance: Tolerance) -> None:
        self.budgets = Budgets(tolerance)

    def learn(self, draws: Draws, slot: int) -> None:
        """Set or widen the budgets by what the reference itself makes of a slot's inputs."""
        draws.expect(slot, exact=True, twice=True)
        draws.expect(slot, exact=False)
        for output in draws.outputs:
            truth = draws.expected(slot, output.name, exact=True)
            declared = draws.expected(slot, output.name, exact=False)
            rows = _RowPicker(truth, FULL_ELEMENTS)
            honest = measure(rows(declared), rows(truth))
            self.budgets.learn(draws.workload.label, draws.description, output, honest)

    def knows(self, draws: Draws) -> bool:
        """Whether this workload's budgets were learned."""
        return self.budgets.knows(draws.workload.label, draws.outputs)

    def check(self, draws: Draws, arena: Arena, slot: int) -> Finding:
        """Compare a slot with float64, after `draws.expect(slot, exact=True)`."""
        return self._compare(draws, arena, slot, exact=True, elements=FULL_ELEMENTS)

    def spot_check(self, draws: Draws, arena: Arena, slot: int) -> Finding:
        """Compare random rows of a timed call with the reference in the declared precision."""
        return self._compare(draws, arena, slot, exact=False, elements=SPOT_ELEMENTS)

    def _compare(
        self, draws: Draws, arena: Arena, slot: int, *, exact: bool, elements: int
    ) -> Finding:
        label = draws.workload.label
        failure = _trespass(draws, arena, slot)
        errors = {}
        for output in draws.outputs:
            out = arena.view(slot, output.name)
            expected = draws.expected(slot, output.name, exact=exact)
            budget = self.budgets.get(label, output.name)
            rows = _RowPicker(expected, elements)
            found = measure(rows(out), rows(expected), budget)
            errors[output.name] = found
            failure = failure or _unwritten(label, output.name, out, expected)
            slack = Errors(0, 0) if exact else budget.honest
            failure = failure or too_wrong(label, output.name, found, budget, slack)
        return Finding(failure, errors)


class _RowPicker:
    """Picks the same random rows (last axis) of arrays that have one shape."""

    def __init__(self, like: Array, elements: int) -> None:
        columns = like.shape[-1] if like.ndim > 1 else min(like.size, 4096)
        self._chosen: NDArray[np.int64] | None = None
        self._columns = columns
        if like.size > elements and columns > 0:
            rows = like.size // columns
            rng = np.random.default_rng(secrets.randbits(64))
            self._chosen = rng.choice(rows, max(elements // columns, 1), replace=False)

    def __call__(self, array: Array) -> Array:
        if self._chosen is None:
            return array
        whole = array.size // self._columns * self._columns
        return array.reshape(-1)[:whole].reshape(-1, self._columns)[self._chosen]


def _trespass(draws: Draws, arena: Arena, slot: int) -> Failure | None:
    label = draws.workload.label
    if where := arena.overrun(slot):
        return Incorrect(
            reason="out_of_bounds", detail=f"{label}: wrote outside its arrays, {where}"
        )
    for array in draws.arrays:
        if array.role == "input" and not _same_bytes(
            arena.view(slot, array.name), draws.arena.view(slot, array.name)
        ):
            return Incorrect(
                reason="input_altered", detail=f"{label}: changed its input {array.name!r}"
            )
    return None


def _same_bytes(one: Array, other: Array) -> bool:
    """Bit for bit, so that a NaN equals itself; whole words at a time where that divides evenly."""
    word = np.uint64 if one.nbytes % 8 == 0 else np.uint8
    return np.array_equal(one.reshape(-1).view(word), other.reshape(-1).view(word))


def _unwritten(label: str, name: str, out: Array, expected: Array) -> Failure | None:
    """NaN anywhere in an output whose reference has none: poison that was never overwritten."""
    if not np.issubdtype(out.dtype, np.floating) or not np.isnan(out).any():
        return None
    missing = int(np.count_nonzero(np.isnan(out)))
    if missing <= int(np.count_nonzero(np.isnan(expected))):
        return None
    return Incorrect(
        reason="nan_output",
        detail=f"{label}: {missing} of {out.size} elements of {name!r} are NaN or were not written",
    )
