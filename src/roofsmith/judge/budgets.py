"""How wrong each output of each workload may be, and what it means when one is more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roofsmith.analysis.tolerance import Budget, Errors, budget_for
from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.outcome import Failure, Incorrect
from roofsmith.domain.target import Tolerance
from roofsmith.ports import ArraySpec, WorkloadDescription

LONGEST_ROW = 2**16
"""Cap on the length that a row may add to the error budget: keeps it, at 6e-5 in float32, well
below the 2e-4 to 5e-4 that operands rounded to TF32 cost."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What comparing one slot's outputs came to."""

    failure: Failure | None
    errors: dict[str, Errors]
    """By output."""


class Budgets:
    """Error budgets of one target, learned from the reference as it goes."""

    def __init__(self, tolerance: Tolerance) -> None:
        self._tolerance = tolerance
        self._known: dict[tuple[str, str], Budget] = {}

    def learn(
        self, label: str, description: WorkloadDescription, output: ArraySpec, honest: Errors
    ) -> None:
        """Set or widen a budget by what the reference made of one draw in the declared precision.

        Args:
            label: of the workload.
            description: of the workload.
            output: the array.
            honest: error of the reference itself.
        """
        atol, rtol = self.tolerances(description)
        budget = budget_for(
            honest,
            output.dtype,
            factor=self._tolerance.error_factor,
            terms=_terms(description),
            atol=atol,
            rtol=rtol,
        )
        known = self._known.get((label, output.name))
        self._known[label, output.name] = budget.wider(known) if known else budget

    def knows(self, label: str, outputs: Sequence[ArraySpec]) -> bool:
        """Whether a workload's budgets were learned."""
        return all((label, output.name) in self._known for output in outputs)

    def get(self, label: str, output: str) -> Budget:
        """The budget of an output."""
        return self._known[label, output]

    def reports(self, label: str, found: Sequence[Finding]) -> tuple[ErrorReport, ...]:
        """Worst errors of several findings on one workload, beside their budgets."""
        return tuple(
            ErrorReport(
                workload=label,
                output=output,
                norm_error=max((f.errors[output].norm for f in found), default=0.0),
                norm_budget=budget.norm,
                element_error=max((f.errors[output].element for f in found), default=0.0),
                element_budget=budget.element,
                honest_norm_error=budget.honest.norm,
                honest_element_error=budget.honest.element,
            )
            for (workload, output), budget in self._known.items()
            if workload == label
        )

    def tolerances(self, description: WorkloadDescription) -> tuple[float | None, float | None]:
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


def too_wrong(
    label: str, name: str, found: Errors, budget: Budget, slack: Errors
) -> Failure | None:
    """The failure that errors beyond the budget amount to; None if they are within it."""
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
