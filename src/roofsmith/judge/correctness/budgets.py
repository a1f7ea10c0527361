"""How wrong each output of each workload may be, and what it means when one is more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from roofsmith.analysis.tolerance import (
    GROSS,
    MOST_ELEMENT,
    MOST_NORM,
    SUMMED_IN,
    Budget,
    Errors,
    Roundings,
    budget_for,
)
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.outcome import Failure, Incorrect
from roofsmith.domain.target import Tolerance
from roofsmith.judge.correctness.conditioning import Honest, Strain, is_lost
from roofsmith.judge.correctness.diagnosis import Diagnosis
from roofsmith.judge.correctness.distributions import OWN

LONGEST_AXIS = 2**16
"""Cap on the length that an axis may add to the error budget: keeps it, at 6e-5 in float32, well
below the 2e-4 to 5e-4 that operands rounded to TF32 cost."""


FEW_INPUTS, MANY_ELEMENTS = 8, 64
"""An element that depends on so few inputs has to be right by itself, not just beside the largest
of its row: cancellation spoils few of so many. Chosen, like the shares below: what the reference
may make in the declared precision for the rule to apply, and what a kernel may make then."""
LEAST_GROSS, MOST_GROSS = 1 / 64, 1 / 8

LARGEST_STRAIN = 2.0**14
"""How much more than usual a draw may magnify rounding errors. A single sum of many terms is about
normal, with a median of 0.674 sigma, so it cancels further in one of 30,000 draws:
P(|z| < 0.674 / 2**14) = 3.3e-5."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What comparing one slot's outputs came to."""

    workload: str
    """Its label."""
    distribution: str
    """What the inputs were drawn from."""
    failure: Failure | None
    errors: dict[str, Errors]
    """By output."""
    strained: Mapping[str, Budget] = field(default_factory=dict)
    """Budgets of outputs on which this very draw is harder than draws usually are."""
    is_whole: bool = True
    """False if only a part of an output was compared, another one every time."""
    counts: bool = True
    """False if the operator lost its meaning on these inputs, so that nothing was compared."""
    seed: int | None = None
    """What they were drawn with."""


class Budgets:
    """Error budgets of one target, learned from the reference as it goes."""

    def __init__(self, tolerance: Tolerance) -> None:
        self._tolerance = tolerance
        self._known: dict[tuple[str, str], Budget] = {}
        self._scales: dict[tuple[str, str], float] = {}
        """Root mean squares of outputs on own draws."""

    def learn(
        self,
        label: str,
        description: WorkloadDescription,
        output: ArraySpec,
        honest: Errors,
        scale: float,
        *,
        fan_in: float | None = None,
        selected: Collection[str] = (),
        roundings: Roundings = "random",
        is_own: bool = True,
    ) -> None:
        """Set or widen a budget by what the reference made of one draw in the declared precision.

        Args:
            label: of the workload.
            description: of the workload.
            output: the array.
            honest: error of the reference itself.
            scale: root mean square of the output on own draws.
            fan_in: inputs that an element of it depends on, if these are a few.
            selected: outputs that consist of the inputs' own numbers.
            roundings: see `analysis.tolerance.budget_for`.
            is_own: whether it was a draw of the reference's own.
        """
        atol, rtol = self.tolerances(description)
        budget = budget_for(
            honest,
            output.dtype,
            factor=self._tolerance.error_factor,
            terms=terms_of(description, output, fan_in),
            atol=atol,
            rtol=rtol,
            roundings=roundings,
            is_own=is_own,
            selects=output.name in selected,
        )
        local = fan_in is not None and fan_in <= FEW_INPUTS and atol is None and rtol is None
        if is_own:
            self._scales[label, output.name] = max(scale, self._scales.get((label, output.name), 0))
        else:
            budget = replace(budget, own_scale=scale)
        if is_own and local and honest.gross <= LEAST_GROSS and elements(output) >= MANY_ELEMENTS:
            budget = replace(budget, gross=MOST_GROSS)
        known = self._known.get((label, output.name))
        self._known[label, output.name] = budget.wider(known) if known else budget

    def learn_other(
        self,
        subject: str,
        label: str,
        description: WorkloadDescription,
        outputs: Sequence[ArraySpec],
        honest: Honest,
        *,
        fan_in: Mapping[str, float],
        selected: Collection[str] = (),
        roundings: Roundings,
        is_scaled: bool = False,
    ) -> bool:
        """Set or widen budgets for inputs of another distribution; False if they mean nothing.

        Args:
            subject: the workload and the distribution.
            label: of the workload, whose own draws were learned from before.
            description: of the workload.
            outputs: its arrays.
            honest: what honest arithmetic makes of this draw.
            fan_in: inputs that an element of an output depends on, where these are a few.
            selected: outputs that consist of the inputs' own numbers.
            roundings: see `analysis.tolerance.budget_for`.
            is_scaled: whether results are those of own draws times a power of two, so that the
                scale of these is no measure.
        """
        if not honest.is_sound or any(
            is_lost(honest.errors[output.name], self.get(label, output.name).honest, output.dtype)
            for output in outputs
        ):
            return False
        for output in outputs:
            errors = honest.errors[output.name]
            scale = 0.0 if is_scaled else self._scales[label, output.name]
            self.learn(
                subject, description, output, errors, scale,
                fan_in=fan_in.get(output.name), selected=selected, roundings=roundings,
                is_own=False,
            )  # fmt: skip
        return True

    def knows(self, label: str, outputs: Sequence[ArraySpec]) -> bool:
        """Whether a workload's budgets were learned."""
        return all((label, output.name) in self._known for output in outputs)

    def get(self, label: str, output: str) -> Budget:
        return self._known[label, output]

    def reports(self, label: str, found: Sequence[Finding]) -> tuple[ErrorReport, ...]:
        """Worst errors of several findings on one workload, beside their budgets."""
        made = []
        for inputs in dict.fromkeys(finding.distribution for finding in found if finding.counts):
            members = [f for f in found if f.counts and f.distribution == inputs]
            for output in members[0].errors:
                known = self.get(subject(label, inputs), output)
                budget = reduce(Budget.wider, (f.strained.get(output, known) for f in members))
                made.append(
                    ErrorReport(
                        workload=label,
                        inputs=inputs,
                        output=output,
                        norm_error=max(f.errors[output].norm for f in members),
                        norm_budget=budget.norm,
                        element_error=max(f.errors[output].element for f in members),
                        element_budget=budget.element,
                        honest_norm_error=budget.honest.norm,
                        honest_element_error=budget.honest.element,
                    )
                )
        return tuple(made)

    @property
    def error_factor(self) -> float:
        """Multiple of the honest error that is allowed."""
        return self._tolerance.error_factor

    def moved_factor(self, dtype: str) -> float:
        """Multiple of what moving inputs does to an output's truth that an honest kernel may make.

        None of half precision, whose inputs are rounded so coarsely that it says nothing.
        """
        return 0.0 if dtype in SUMMED_IN else self._tolerance.error_factor

    def tolerances(self, description: WorkloadDescription) -> tuple[float | None, float | None]:
        """The target's tolerances if it gives any, else the reference's."""
        if self._tolerance.atol is None and self._tolerance.rtol is None:
            return description.atol, description.rtol
        return self._tolerance.atol, self._tolerance.rtol


def terms_of(
    description: WorkloadDescription, output: ArraySpec, fan_in: float | None = None
) -> float:
    """How many terms an element of an output may sum, as far as shapes and declared work tell.

    The inputs that it depends on, if these are a few. Else the largest of: a multiply-add per term
    (flops / 2 over elements of all outputs), inputs over elements of this one, and the longest
    axis, as a softmax's; the last is a guess, so it is capped.
    """
    if fan_in is not None:
        return fan_in
    outputs = sum(elements(a) for a in description.arrays if a.is_result)
    inputs = sum(elements(a) for a in description.arrays if a.role == "input")
    longest = max((size for a in description.arrays for size in a.shape), default=1)
    return max(
        (description.flops or 0.0) / 2 / max(outputs, 1),
        inputs / max(elements(output), 1),
        min(longest, LONGEST_AXIS),
    )


def elements(array: ArraySpec) -> int:
    """How many an array has."""
    return int(np.prod(array.shape, dtype=np.int64))


def is_too_wrong(found: Errors, budget: Budget, slack: Errors) -> bool:
    """Whether errors are beyond the budget."""
    return (
        found.problem is not None
        or found.norm > budget.norm + slack.norm
        or found.element > budget.element + slack.element
    )


def is_gross(found: Errors, budget: Budget) -> bool:
    """Whether too many elements are nothing like what they should be, however small they are."""
    return budget.gross is not None and found.gross > budget.gross


def gross_failure(subject: str, output: str, found: Errors, budget: Budget) -> Failure:
    """The outcome of such an output."""
    detail = (
        f"{found.gross:.0%} of its elements, each of which depends on a few inputs, are off by more"
        f" than {GROSS:.0%} of what they should be, however small that is; if numbers cancel there"
        " in the formula, as in 1 + erf(x), give `atol`"
    )
    return incorrect(subject, output, Diagnosis("wrong_output", detail), budget)


def draw_budget(
    found: Errors, budget: Budget, here: Errors, factor: float, *, exact: bool
) -> Budget | None:
    """The budget by what honest arithmetic makes of this very draw, if that is enough: where an arc
    sine's argument is nearly 1, one draw in thirty is far harder than others.

    Args:
        found: errors of an output, beyond the budget.
        budget: what draws usually allow.
        here: errors of honest arithmetic on this draw.
        factor: multiple of them that is allowed.
        exact: whether it was compared with float64, and not with the declared precision.
    """
    if factor == 0:
        return None
    given = not (budget.atol is None and budget.rtol is None)
    own = replace(
        budget,
        norm=max(budget.norm, min(factor * here.norm, MOST_NORM)),
        element=budget.element
        if given
        else max(budget.element, min(factor * here.element, MOST_ELEMENT)),
    )
    return None if is_too_wrong(found, own, Errors(0.0, 0.0) if exact else here) else own


def strained_budget(
    found: Errors,
    budget: Budget,
    slack: Errors,
    strain: Callable[[], Strain | None],
    factor: float,
) -> Budget | None:
    """The budget of a draw's own condition, where that explains an error; None if it doesn't.

    Args:
        found: errors of an output, beyond the budget.
        budget: what draws usually allow.
        slack: error of what it was compared with.
        strain: asked how well conditioned the draw is, only if the error is so small that this can
            be the reason; None: nobody knows.
        factor: multiple of what moving the inputs does to the truth that is allowed.
    """
    if not is_near(found, budget, slack) or (known := strain()) is None:
        return None
    norm, element = known.ratio
    if not known.leaps:
        norm = max(norm, factor * known.here.norm / budget.norm)
        element = max(element, factor * known.here.element / budget.element)
    return _explaining(found, budget, slack, *(min(k, LARGEST_STRAIN) for k in (norm, element)))


def is_near(found: Errors, budget: Budget, slack: Errors) -> bool:
    """Whether an error is so small that the draw's own condition may be the reason."""
    return _explaining(found, budget, slack, LARGEST_STRAIN, LARGEST_STRAIN) is not None


def _explaining(
    found: Errors, budget: Budget, slack: Errors, norm: float, element: float
) -> Budget | None:
    own = budget.strained(norm, element)
    magnified = Errors(slack.norm * norm, slack.element * element)
    return None if is_too_wrong(found, own, magnified) else own


def subject(label: str, distribution: str) -> str:
    """A workload, and what its inputs are drawn from if that isn't the reference's own."""
    return label if distribution == OWN else f"{label}, {distribution}"


def incorrect(subject: str, output: str, found: Diagnosis, budget: Budget) -> Failure:
    """The outcome of a wrong output that was told."""
    honest = f"honest arithmetic is off by {budget.honest.norm:.3g} norm-wise"
    if budget.norm == 0:
        honest = f"rounding alone changes {budget.honest.norm:.0f} of the reference's integers"
    return Incorrect(
        reason=found.reason, detail=f"{subject}: {output!r}: {found.detail} ({honest})"
    )
