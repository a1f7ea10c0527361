"""Is what a kernel wrote right? Within the error budget, and inside its own arrays."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from roofsmith.analysis.tolerance import (
    Budget,
    Errors,
    measure,
    off_beyond,
    root_mean_squares,
)
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.outcome import Failure, Incorrect
from roofsmith.domain.target import Tolerance
from roofsmith.errors import BadReferenceError
from roofsmith.judge.correctness.budgets import (
    Budgets,
    Finding,
    draw_budget,
    gross_failure,
    incorrect,
    is_gross,
    is_near,
    is_too_wrong,
    strained_budget,
)
from roofsmith.judge.correctness.conditioning import on_own_draws
from roofsmith.judge.correctness.diagnosis import Evidence, diagnose
from roofsmith.judge.correctness.distributions import OWN, roundings_on
from roofsmith.judge.correctness.long_sums import room_for_sums
from roofsmith.judge.correctness.low_precision_inputs import (
    Attempts,
    Question,
    Way,
    Ways,
    attempt,
    questions,
)
from roofsmith.judge.correctness.poison import unwritten
from roofsmith.judge.correctness.rounding import room_for_rounding
from roofsmith.judge.correctness.sampled_blocks import SPOT_ELEMENTS, Stretches
from roofsmith.judge.correctness.shortened_inputs import How
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.arithmetic import HostArithmetic
from roofsmith.judge.host.draws import Draws

FULL_ELEMENTS = 2**22
"""Up to this many elements of an output are compared in a check; beyond it, random rows."""

Array = NDArray[np.generic]


class Checker:
    """Judges outputs for one target; learns the budgets from the reference as it goes."""

    def __init__(self, tolerance: Tolerance) -> None:
        self.budgets = Budgets(tolerance)
        self._failed: tuple[Finding, list[Array]] | None = None
        """The last wrong outputs that were compared as a whole, and what was found."""

    def learn(self, draws: Draws, slot: int) -> None:
        """Set or widen the budgets by what honest arithmetic makes of a slot's inputs.

        That is what the reference makes of them in the declared precision, or moving them makes of
        the truth, if that is more: a reference may compute in float64 whatever its arrays are.
        """
        moved = _moved(draws, slot)
        draws.expect(slot, exact=True, twice=True)
        draws.expect(slot, exact=False)
        for output in draws.outputs:
            truth = draws.expected(slot, output.name, exact=True)
            declared = draws.expected(slot, output.name, exact=False)
            rows = _RowPicker(truth, FULL_ELEMENTS)
            honest = measure(rows(declared), rows(truth), scale=rows.scale)
            honest = on_own_draws(
                honest, moved.get(output.name), output.dtype, leaps=draws.may_jump(output.name)
            )
            scale = float(root_mean_squares(truth.reshape(1, -1))[0])
            self.budgets.learn(
                draws.subject, draws.description, output, honest, scale,
                fan_in=draws.fan_in.get(output.name), selected=draws.selected,
            )  # fmt: skip

    def knows(self, draws: Draws) -> bool:
        """Whether the budgets of this workload and distribution were learned."""
        return self.budgets.knows(draws.subject, draws.outputs)

    def check(self, draws: Draws, arena: Arena, slot: int) -> Finding:
        """Compare a slot with float64; learn the budgets from it if they aren't known."""
        if draws.distribution != OWN:
            if not self._tolerates(draws, slot):
                return Finding(draws.workload.label, draws.distribution, None, {}, counts=False)
        else:
            if not self.knows(draws):
                self.learn(draws, slot)
            draws.expect(slot, exact=True)
        return self._compare(draws, arena, slot, exact=True, elements=FULL_ELEMENTS)

    def attempts(self, draws: Draws, arena: Arena, slot: int, known: Ways | None) -> Attempts:
        """What may explain outputs that are within their budgets; see `narrow_inputs`."""
        found = {}
        budgets, factor = partial(self.budgets.get, draws.subject), self.budgets.error_factor
        for asked in questions(draws.arrays, budgets, factor, known):
            out = arena.view(slot, asked.output).reshape(-1)[asked.places]
            right = partial(_right, draws, slot, asked)
            if (tried := attempt(asked, out, right(None), right)) is not None:
                found[asked.output] = tried
        return found

    def spot_check(self, draws: Draws, arena: Arena, slot: int) -> Finding:
        """Compare random rows of a timed call with the reference in the declared precision."""
        return self._compare(draws, arena, slot, exact=False, elements=SPOT_ELEMENTS)

    def _tolerates(self, draws: Draws, slot: int) -> bool:
        """Whether the operator keeps its meaning on this very draw; learn the budgets if so."""
        try:
            honest = draws.honest(slot)
        except BadReferenceError:  # it refuses such inputs at this size
            return False
        return self.budgets.learn_other(
            draws.subject, draws.workload.label, draws.description, draws.outputs, honest,
            fan_in=draws.fan_in, selected=draws.selected,
            roundings=roundings_on(draws.distribution, one_by_one=True),
            is_scaled=draws.is_scaled,
        )  # fmt: skip

    def _compare(
        self, draws: Draws, arena: Arena, slot: int, *, exact: bool, elements: int
    ) -> Finding:
        failure = crime = trespass(draws, arena, slot)
        if crime is None and exact and (known := self._found_before(draws, arena, slot)):
            return known
        errors, strained, is_whole = {}, {}, True
        for output in draws.outputs:
            out = arena.view(slot, output.name)
            expected = draws.expected(slot, output.name, exact=exact)
            budget = self.budgets.get(draws.subject, output.name)
            rows = _RowPicker(expected, elements)
            is_whole = is_whole and rows.picks_all
            found = measure(rows(out), rows(expected), budget, rows.scale)
            errors[output.name] = found
            slack = Errors(0, 0) if exact else budget.honest
            if failure is not None:
                continue
            if _is_unwritten(out, output.dtype, expected):
                failure = _named(draws, arena, slot, output, budget)
            elif is_too_wrong(found, budget, slack):
                factor = self.budgets.moved_factor(output.dtype)
                own = _explained(draws, slot, output.name, out, found, budget, factor, exact=exact)
                if own is None:
                    failure = _named(draws, arena, slot, output, budget)
                else:
                    strained[output.name] = own
                    errors[output.name] = Errors(found.norm, found.element)
            elif is_gross(found, budget):
                failure = gross_failure(draws.subject, output.name, found, budget)
        finding = Finding(
            draws.workload.label, draws.distribution, failure, errors, strained,
            is_whole=is_whole, seed=draws.seed(slot),
        )  # fmt: skip
        if exact and is_whole and crime is None and failure is not None:
            self._failed = finding, [arena.view(slot, o.name).copy() for o in draws.outputs]
        return finding

    def _found_before(self, draws: Draws, arena: Arena, slot: int) -> Finding | None:
        """What was found of the very same outputs for the very same inputs, if these were wrong."""
        if self._failed is None:
            return None
        found, wrong = self._failed
        of = found.workload, found.distribution, found.seed
        if of != (draws.workload.label, draws.distribution, draws.seed(slot)):
            return None
        outs = (arena.view(slot, output.name) for output in draws.outputs)
        return found if all(map(same_bytes, outs, wrong)) else None


def _moved(draws: Draws, slot: int) -> Mapping[str, Errors]:
    """What honest arithmetic makes of a slot's inputs, or of inputs that were hardly moved."""
    try:
        return draws.honest(slot).errors
    except BadReferenceError:  # it refuses such inputs
        return {}


def _explained(
    draws: Draws,
    slot: int,
    name: str,
    out: Array,
    found: Errors,
    budget: Budget,
    factor: float,
    *,
    exact: bool,
) -> Budget | None:
    """The budget of this very draw, where rounding explains what is beyond the usual one."""
    slack = Errors(0, 0) if exact else budget.honest
    own = None
    if np.issubdtype(out.dtype, np.floating):
        here = None if draws.may_jump(name) else _moved(draws, slot).get(name)
        if here is not None:
            own = draw_budget(found, budget, here, factor, exact=exact)
        if own is None and not draws.may_jump(name) and is_near(found, budget, slack):
            own = _sums_explain(draws, slot, name, out, found, budget)
            draws.expect(slot, exact=exact)
        if own is None:
            own = strained_budget(
                found, budget, slack, lambda: draws.strain(slot).get(name), factor
            )
    if own is None:
        own = room_for_rounding(draws, slot, name, out, budget)
        draws.expect(slot, exact=exact)
    return own


def _sums_explain(
    draws: Draws, slot: int, name: str, out: Array, found: Errors, budget: Budget
) -> Budget | None:
    """The budget of this very draw by what its sums may be off by; overwrites `expected`."""
    if (bound := draws.bound_of_sums(slot, name)) is None:
        return None
    draws.expect(slot, exact=True)
    truth = draws.expected(slot, name, exact=True)
    off, _ = off_beyond(out, truth, budget)
    norm = room_for_sums(out, truth, off, bound, budget.norm, HostArithmetic())
    if norm is None:
        return None
    return replace(budget, norm=norm, element=max(budget.element, found.element))


def _named(draws: Draws, arena: Arena, slot: int, output: ArraySpec, budget: Budget) -> Failure:
    """A failed output with its reason."""
    out = arena.view(slot, output.name)
    draws.expect(slot, exact=True)
    truth = draws.expected(slot, output.name, exact=True).copy()
    floating = np.issubdtype(out.dtype, np.floating)
    with np.errstate(invalid="ignore"):
        values = out.astype(np.float64) if floating else out
    found = diagnose(
        Evidence(
            out, values, truth, output.dtype, measure(out, truth, budget), budget.norm,
            budget.element, partial(draws.earlier, slot, output.name),
            partial(_shortened, draws, slot, output.name),
        )
    )  # fmt: skip
    return incorrect(draws.subject, output.name, found, budget)


def _shortened(draws: Draws, slot: int, name: str, bits: int, how: How) -> Array | None:
    """What is right for shortened inputs; None if the reference refuses such."""
    try:
        draws.expect(slot, exact=True, change=["shortened", bits, how, None])
    except BadReferenceError:
        return None
    return draws.expected(slot, name, exact=True)


def _right(draws: Draws, slot: int, asked: Question, way: Way | None) -> NDArray[np.float64]:
    """What is right at a question's places, for inputs as they are or rounded in a way; NaN if the
    reference refuses these."""
    change = None if way is None else ["shortened", way.bits, way.how, way.names]
    try:
        draws.expect(slot, exact=True, change=change)
    except BadReferenceError:
        if way is None:
            raise
        return np.full(asked.places.shape, np.nan)
    right = draws.expected(slot, asked.output, exact=True).reshape(-1)[asked.places]
    return right.astype(np.float64, copy=False)


class _RowPicker:
    """Picks the same random rows of arrays that have one shape; of long rows, stretches."""

    def __init__(self, like: Array, elements: int) -> None:
        self.scale: NDArray[np.float64] | None = None
        """Root mean squares of the rows that stretches were picked of."""
        self._length = 0
        self._begins: NDArray[np.int64] | None = None
        if like.size <= elements:
            return
        stretches = Stretches(like.shape)
        self._length = stretches.length
        rng = np.random.default_rng(secrets.randbits(64))
        count = max(elements // self._length, 1)
        rows, within = stretches.places(rng.choice(stretches.count, count, replace=False))
        self._begins = rows * stretches.row + within
        if not stretches.are_rows and np.issubdtype(like.dtype, np.floating):
            whole = like.reshape(-1, stretches.row)
            picked, places = np.unique(rows, return_inverse=True)
            parted = whole if len(picked) == len(whole) else whole[picked]
            self.scale = root_mean_squares(parted.astype(np.float64, copy=False))[places]

    @property
    def picks_all(self) -> bool:
        """Whether it leaves none out."""
        return self._begins is None

    def __call__(self, array: Array) -> Array:
        if self._begins is None:
            return array
        return sliding_window_view(array.reshape(-1), self._length)[self._begins]


def trespass(draws: Draws, arena: Arena, slot: int) -> Failure | None:
    """What a kernel did to guard bands and inputs of a slot."""
    label = draws.subject
    if where := arena.overrun(slot):
        return Incorrect(
            reason="out_of_bounds", detail=f"{label}: wrote outside its arrays, {where}"
        )
    given = draws.given(slot)
    for array in draws.arrays:
        if array.role == "input" and not same_bytes(
            arena.view(slot, array.name), given[array.name]
        ):
            return Incorrect(
                reason="input_altered", detail=f"{label}: changed its input {array.name!r}"
            )
    return None


def same_bytes(one: Array, other: Array) -> bool:
    """Bit for bit, so that a NaN equals itself; whole words at a time where that divides evenly."""
    word = np.uint64 if one.nbytes % 8 == 0 else np.uint8
    return np.array_equal(one.reshape(-1).view(word), other.reshape(-1).view(word))


def _is_unwritten(out: Array, dtype: str, expected: Array) -> bool:
    """Poison anywhere in a floating output, also beyond the rows that were compared."""
    if not np.issubdtype(out.dtype, np.floating):
        return False
    missing = unwritten(out, dtype)
    return bool(missing.any()) and not bool(np.isnan(expected[missing]).all())
