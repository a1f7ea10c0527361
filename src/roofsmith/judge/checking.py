"""Is what a kernel wrote right? Within the error budget, and inside its own arrays."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofsmith.analysis.tolerance import Budget, Errors, budget_for, measure
from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.outcome import Failure, Incorrect
from roofsmith.domain.target import Tolerance
from roofsmith.judge.arena import Arena
from roofsmith.judge.oracle import Draws
from roofsmith.ports import WorkloadDescription

FULL_ELEMENTS = 2**22
"""Up to this many elements of an output are compared in a check; beyond it, random rows."""
SPOT_ELEMENTS = 2**17
"""The same for a timed call. The rows are chosen after the call, so none is safe to skip."""

LONGEST_ROW = 2**16
"""Cap on the length that a row may add to the error budget: keeps it, at 6e-5 in float32, well
below the 2e-4 to 5e-4 that operands rounded to TF32 cost."""

Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Finding:
    """What comparing one slot's outputs came to."""

    failure: Failure | None
    errors: dict[str, Errors]
    """By output."""


class Checker:
    """Judges outputs for one target; learns the budgets from the reference as it goes."""

    def __init__(self, tolerance: Tolerance) -> None:
        self._tolerance = tolerance
        self._budgets: dict[tuple[str, str], Budget] = {}

    def learn(self, draws: Draws, slot: int) -> None:
        """Set or widen the budgets by what the reference itself makes of a slot's inputs."""
        draws.expect(slot, exact=True, twice=True)
        draws.expect(slot, exact=False)
        for output in draws.outputs:
            truth = draws.expected(slot, output.name, exact=True)
            declared = draws.expected(slot, output.name, exact=False)
            rows = _RowPicker(truth, FULL_ELEMENTS)
            atol, rtol = self._tolerances(draws.description)
            budget = budget_for(
                measure(rows(declared), rows(truth)),
                output.dtype,
                factor=self._tolerance.error_factor,
                terms=_terms(draws.description),
                atol=atol,
                rtol=rtol,
            )
            key = draws.workload.label, output.name
            known = self._budgets.get(key)
            self._budgets[key] = budget.wider(known) if known else budget

    def knows(self, draws: Draws) -> bool:
        """Whether this workload's budgets were learned."""
        return all((draws.workload.label, o.name) in self._budgets for o in draws.outputs)

    def check(self, draws: Draws, arena: Arena, slot: int) -> Finding:
        """Compare a slot with float64, after `draws.expect(slot, exact=True)`."""
        return self._compare(draws, arena, slot, exact=True, elements=FULL_ELEMENTS)

    def spot_check(self, draws: Draws, arena: Arena, slot: int) -> Finding:
        """Compare random rows of a timed call with the reference in the declared precision."""
        return self._compare(draws, arena, slot, exact=False, elements=SPOT_ELEMENTS)

    def reports(self, draws: Draws, found: Sequence[Finding]) -> tuple[ErrorReport, ...]:
        """Worst errors of several findings, beside their budgets."""
        return tuple(
            ErrorReport(
                workload=draws.workload.label,
                output=output.name,
                norm_error=max((f.errors[output.name].norm for f in found), default=0.0),
                norm_budget=budget.norm,
                element_error=max((f.errors[output.name].element for f in found), default=0.0),
                element_budget=budget.element,
                honest_norm_error=budget.honest.norm,
                honest_element_error=budget.honest.element,
            )
            for output in draws.outputs
            for budget in [self._budgets[draws.workload.label, output.name]]
        )

    def _compare(
        self, draws: Draws, arena: Arena, slot: int, *, exact: bool, elements: int
    ) -> Finding:
        label = draws.workload.label
        failure = _trespass(draws, arena, slot)
        errors = {}
        for output in draws.outputs:
            out = arena.view(slot, output.name)
            expected = draws.expected(slot, output.name, exact=exact)
            budget = self._budgets[label, output.name]
            rows = _RowPicker(expected, elements)
            found = measure(rows(out), rows(expected), budget)
            errors[output.name] = found
            failure = failure or _unwritten(label, output.name, out, expected)
            slack = Errors(0, 0) if exact else budget.honest
            failure = failure or _too_wrong(label, output.name, found, budget, slack)
        return Finding(failure, errors)

    def _tolerances(self, description: WorkloadDescription) -> tuple[float | None, float | None]:
        """The target's tolerances if it gives any, else the reference's."""
        if self._tolerance.atol is None and self._tolerance.rtol is None:
            return description.atol, description.rtol
        return self._tolerance.atol, self._tolerance.rtol


def _terms(description: WorkloadDescription) -> float:
    """How many terms an output element may sum, as far as shapes and declared work tell.

    The largest of: a multiply-add per term (flops / 2 over output elements), inputs over outputs,
    and the longest row, as in a softmax; the last is a guess, so it is capped.
    """
    outputs = sum(_elements(a.shape) for a in description.arrays if a.role != "input")
    inputs = sum(_elements(a.shape) for a in description.arrays if a.role == "input")
    longest = max((a.shape[-1] for a in description.arrays if a.shape), default=1)
    return max(
        (description.flops or 0.0) / 2 / max(outputs, 1),
        inputs / max(outputs, 1),
        min(longest, LONGEST_ROW),
    )


def _elements(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


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


def _too_wrong(
    label: str, name: str, found: Errors, budget: Budget, slack: Errors
) -> Failure | None:
    if found.problem is not None:
        return Incorrect(reason="wrong_output", detail=f"{label}: {name!r}: {found.problem}")
    norm, element = budget.norm + slack.norm, budget.element + slack.element
    if found.norm > norm:
        return Incorrect(
            reason="error_budget",
            detail=f"{label}: {name!r} is off by {found.norm:.3g} norm-wise; the budget is"
            f" {norm:.3g} (honest arithmetic makes {budget.honest.norm:.3g})",
        )
    if found.element > element:
        return Incorrect(
            reason="error_budget",
            detail=f"{label}: an element of {name!r} is off by {found.element:.3g} of its row's"
            f" scale; the budget is {element:.3g}"
            f" (honest arithmetic makes {budget.honest.element:.3g})",
        )
    return None
