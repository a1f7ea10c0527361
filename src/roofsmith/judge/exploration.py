"""Which distributions an operator tolerates, found from its reference alone.

The rule: the float64 reference and the reference in the declared precision stay finite on it, the
result isn't zero throughout, kernels that store half precision between their steps are hardly worse
on it than on the reference's own draws, and honest arithmetic doesn't lose its meaning: neither the
reference itself, nor the truth after inputs are moved by half a unit in their last place, is off by
more than `LOST` times what is allowed on the reference's own draws, or `MEANINGLESS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from statistics import median
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from roofsmith.analysis.tolerance import (
    EPSILON,
    LARGEST_ERROR,
    NORM_FLOOR_EPS,
    SUMMED_IN,
    Errors,
)
from roofsmith.judge.dependence import elements, fan_in, is_fixed, same_inputs
from roofsmith.judge.distributions import (
    ALTERNATIVES,
    DISTRIBUTIONS,
    LARGEST,
    LEVEL,
    NEEDLESS,
    SIGNIFICAND,
    SMALL,
    UNDECIDED,
    VARIED,
    Arithmetic,
    moved_by,
    nudged,
    transform,
)
from roofsmith.judge.jumps import jumping, ordered, selected
from roofsmith.judge.structure import is_level, never_above, promise, sign

LOST = 4.0
"""Multiple of the own draws' honest error, or of 16 epsilons, at which an error means nothing."""
MEANINGLESS = Errors(0.2, 0.8)
"""Errors that mean nothing in any type: 64 epsilons of bfloat16 are half of a result."""
STORED = Errors(1.5, 2.0)
"""Times the errors of own draws that those of kernels which store half precision may be. Chosen:
the largest error of a single element varies more from draw to draw."""
SPREAD = 16.0
"""Element-wise over norm-wise, of an error that isn't one of a few elements: what is
ill-conditioned leaps, too, as far as anybody can tell who moves its inputs. Chosen."""
LEAST_SMALL = 2.0**-7
"""Of an output's root mean square on own draws: smaller ones can't be told from zeros by errors
that are relative to that. Chosen."""
MANY_NUMBERS = 2**20
"""Of outputs: for more, a run of the reference takes long."""
SEEDS = (1, 2, 3)
"""Of the draws that show what all have in common; fixed, so that a target always gets the same."""
NUDGES = 4
"""Ways of moving a draw's inputs: a single one may cancel by luck where one of many small problems
that are solved at once outweighs all others. For `MANY_NUMBERS`, one has to do."""
USUAL_SEEDS = (1, 2, 3, 4, 5)
"""Of the draws that a draw's condition is compared with."""


Movement = dict[str, Errors]
"""What moving inputs a little does to the truth, by output."""


class Explored(Protocol):
    """A reference, on whatever it computes."""

    def inputs(self, dims: dict[str, int], seed: int) -> tuple[dict[str, Any], set[str]]:
        """Fresh arguments, and which of them are outputs."""
        ...

    def expect(self, values: Any, outputs: set[str], *, exact: bool) -> Mapping[str, Any]:
        """What it computes."""
        ...

    def narrowed(self, values: Any, outputs: set[str]) -> Mapping[str, Any] | None:
        """What it computes if all that passes between its steps is of its outputs' half type.

        None: that isn't known, or they have no such type.
        """
        ...


@dataclass(frozen=True, slots=True)
class Strain:
    """How hard a draw is for everybody's rounding."""

    here: Errors
    """The most that moving its inputs by half a unit in their last place does to the truth."""
    usual: Errors
    """The median of what that does on other draws."""

    @property
    def leaps(self) -> bool:
        """Whether it makes leaps, so that it says nothing of everybody's rounding."""
        return is_a_leap(self.here)

    @property
    def ratio(self) -> tuple[float, float]:
        """How much worse conditioned it is than draws usually are: at least 1, in either sense."""
        return (
            _ratio(self.here.norm, self.usual.norm),
            _ratio(self.here.element, self.usual.element),
        )


@dataclass(frozen=True, slots=True)
class Honest:
    """What honest arithmetic makes of one draw, by output."""

    errors: Mapping[str, Errors]
    """The larger of the reference's own error and of what moved inputs do to the truth."""
    is_sound: bool
    """Whether results are finite, and not zero throughout."""
    truth: Mapping[str, Any] = field(default_factory=dict)
    """What it was held against, by output."""


def explore(reference: Explored, dims: dict[str, int], on: Arithmetic) -> dict[str, Any]:
    """The distributions that an operator tolerates.

    Returns:
        tolerated: their names; scaled: of these, on which results are those of own draws times a
        power of two; free: inputs that they change, each with the sign that its numbers
        always have, or `LEVEL`; bound: all other floating inputs, with what binds them; fan_in:
        inputs that an output depends on, where these are a few neighbours and no row; else None;
        same: arrays that never change; is_fixed: whether none does;
        jumps: outputs that leap; selected: those that consist of inputs' numbers; ordered: those
        that the order of the inputs alone decides.
    """
    drawn = [reference.inputs(dims, seed) for seed in SEEDS]
    values, outputs = drawn[0]
    free: dict[str, int] = {}
    bound: dict[str, str] = {}
    floating = [name for name in values if name not in outputs and on.is_floating(values[name])]
    draws = {name: [_plain(one[name], on) for one, _ in drawn] for name in floating}
    for name in floating:
        why = promise(draws[name], SIGNIFICAND[on.dtype(values[name])])
        if is_level(draws[name]):
            free[name] = LEVEL
        elif why is None:
            free[name] = sign(draws[name])
        else:
            bound[name] = why
    for low, high in permutations(list(free), 2):
        if LEVEL not in (free[low], free[high]) and never_above(draws[low], draws[high]):
            bound.update({low: f"it is never above {high!r}", high: f"it is never below {low!r}"})
    free = {name: kept for name, kept in free.items() if name not in bound}
    local = fan_in(reference, values, outputs, on)
    jumps = jumping(reference, values, outputs, free, on)
    in_order = ordered(reference, values, outputs, on) if jumps else []
    left_out: set[str] = set()
    if local is not None:
        left_out.update(NEEDLESS)
    if any(not on.is_floating(values[name]) for name in jumps if name not in in_order):
        left_out.update(UNDECIDED)
    tolerated = _tolerated(reference, values, outputs, free, on, left_out) if free else {}
    scaled = [name for name, is_scaled in tolerated.items() if is_scaled]
    return {
        "tolerated": list(tolerated), "scaled": scaled,
        "free": free, "bound": bound, "fan_in": local, "jumps": jumps,
        "same": same_inputs(drawn), "is_fixed": is_fixed(reference, drawn),
        "selected": selected(reference, values, outputs, on),
        "ordered": in_order,
    }  # fmt: skip


def honest(
    reference: Explored, values: Mapping[str, Any], outputs: set[str], on: Arithmetic
) -> Honest:
    """What honest arithmetic makes of a draw.

    Of many outputs the reference's own error says enough: moving inputs costs another run.
    """
    truth = reference.expect(values, outputs, exact=True)
    plain = reference.expect(values, outputs, exact=False)
    many = sum(map(elements, truth.values())) > MANY_NUMBERS
    many = many and all(map(on.is_floating, truth.values()))
    moved = truth if many else reference.expect(nudged(values, 0, on), outputs, exact=True)
    errors, is_sound = {}, True
    for name, exact in truth.items():
        if not on.is_floating(exact):
            errors[name] = Errors(0.0, 0.0)
            is_sound &= bool((moved[name] == exact).all() and (plain[name] == exact).all())
            continue
        largest = LARGEST[on.dtype(plain[name])]
        found = (exact, plain[name]) if many else (exact, plain[name], moved[name])
        if not all(bool((abs(one) <= largest).all()) for one in found) or not bool(
            (exact != 0).any()
        ):
            return Honest({}, is_sound=False, truth=truth)
        own = on.errors(plain[name], exact)
        errors[name] = own if many else worse(own, on.errors(moved[name], exact))
    return Honest(errors, is_sound, truth)


def strain(
    reference: Explored,
    values: Mapping[str, Any],
    outputs: set[str],
    usual: Sequence[Movement],
    on: Arithmetic,
) -> dict[str, Strain]:
    """How well conditioned a draw is, beside draws as they usually are, by output.

    A sum whose terms nearly cancel by chance magnifies everybody's rounding; it matters where an
    output is small, since many elements don't all cancel, and where one of many small problems
    outweighs all others.

    Args:
        reference: computes the truth.
        values: of the draw.
        outputs: names of its outputs.
        usual: `movement` of other draws of the same workload and distribution.
        on: the arithmetic.
    """
    here = movement(reference, values, outputs, on)
    return {
        name: Strain(
            moved,
            Errors(
                median(other[name].norm for other in usual),
                median(other[name].element for other in usual),
            ),
        )
        for name, moved in here.items()
    }


class Usual:
    """What moving inputs does to draws as they usually are, found once per kind of draw."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], list[Movement]] = {}

    def of(
        self,
        how: Mapping[str, Any],
        draw: Callable[[dict[str, Any]], tuple[Mapping[str, Any], set[str]]],
        reference: Explored,
        on: Arithmetic,
    ) -> list[Movement]:
        """`movement` of some draws of a workload and a distribution.

        Args:
            how: a draw is made; its `dims` and `distribution` count.
            draw: makes another like it, with a seed of its own: arguments, and names of outputs.
            reference: computes the truth.
            on: the arithmetic.
        """
        kind = (str(how["dims"]), str(how["distribution"]))
        if kind not in self._known:
            draws = (draw({**how, "seed": seed}) for seed in USUAL_SEEDS)
            self._known[kind] = [movement(reference, *one, on) for one in draws]
        return self._known[kind]


def as_message(found: Mapping[str, Strain]) -> dict[str, list[float]]:
    """`strain`'s result as it goes to the parent, who reads it with `from_message`."""
    return {
        name: [one.here.norm, one.here.element, one.usual.norm, one.usual.element]
        for name, one in found.items()
    }


def from_message(told: Mapping[str, tuple[float, float, float, float]]) -> dict[str, Strain]:
    """The inverse of `as_message`."""
    return {
        name: Strain(Errors(norm, element), Errors(usual_norm, usual_element))
        for name, (norm, element, usual_norm, usual_element) in told.items()
    }


def movement(
    reference: Explored, values: Mapping[str, Any], outputs: set[str], on: Arithmetic
) -> Movement:
    """The most that moving inputs a little does to the truth."""
    truth = reference.expect(values, outputs, exact=True)
    found = {name: Errors(0.0, 0.0) for name, exact in truth.items() if on.is_floating(exact)}
    many = sum(map(elements, truth.values())) > MANY_NUMBERS
    for seed in range(1 if many else NUDGES):
        moved = reference.expect(nudged(values, seed, on), outputs, exact=True)
        for name, known in found.items():
            found[name] = worse(known, on.errors(moved[name], truth[name]))
    return found


def _ratio(here: float, usual: float) -> float:
    return max(here / usual, 1.0) if usual > 0 else 1.0


def worse(one: Errors, other: Errors) -> Errors:
    """The larger of two, in either sense."""
    return Errors(
        max(one.norm, other.norm),
        max(one.element, other.element),
        gross=max(one.gross, other.gross),
    )


def on_own_draws(own: Errors, moved: Errors | None, dtype: str, *, leaps: bool) -> Errors:
    """What honest arithmetic makes of an own draw: a reference may compute in float64 throughout.

    Of half precision, moving inputs makes more than kernels do, which round nothing but the output
    so coarsely; of what leaps, it may be a leap.

    Args:
        own: the reference's error in the declared precision.
        moved: that, or what moving inputs makes of the truth, if it is more; None: nobody knows.
        dtype: of the output.
        leaps: whether it may change by leaps.
    """
    if moved is None or dtype not in EPSILON or dtype in SUMMED_IN:
        return own
    return own if leaps and is_a_leap(moved) else worse(own, moved)


def is_a_leap(moved: Errors) -> bool:
    """Whether moving inputs changed few elements by much, rather than many or those that weigh."""
    return moved.element > SPREAD * moved.norm


def is_lost(found: Errors, own: Errors, dtype: str) -> bool:
    """Whether honest arithmetic is so far off that an error says little."""
    floor = NORM_FLOOR_EPS * EPSILON.get(dtype, 0.0)
    most = Errors(LOST * max(own.norm, floor), LOST * max(own.element, 4 * floor))
    return found.norm > min(most.norm, MEANINGLESS.norm) or found.element > min(
        most.element, MEANINGLESS.element
    )


def stored_errors(
    reference: Explored, values: Mapping[str, Any], outputs: set[str], on: Arithmetic
) -> dict[str, Errors] | None:
    """Errors of kernels that store half precision between their steps, by output.

    None: nobody can tell, or outputs are of another type.
    """
    found = reference.narrowed(values, outputs)
    if found is None:
        return None
    truth = reference.expect(values, outputs, exact=True)
    beyond = Errors(LARGEST_ERROR, LARGEST_ERROR)
    return {
        name: on.errors(found[name], exact) if bool(on.xp.isfinite(found[name]).all()) else beyond
        for name, exact in truth.items()
        if on.is_floating(exact)
    }


def bears_storing(found: dict[str, Errors] | None, own: dict[str, Errors] | None) -> bool:
    """Whether a draw asks hardly more of kernels that store half precision than own draws do.

    Args:
        found: `stored_errors` of the draw.
        own: of one of the reference's own.
    """
    if found is None or own is None:
        return True
    return all(
        found[name].norm <= STORED.norm * one.norm
        and found[name].element <= STORED.element * one.element
        for name, one in own.items()
        if one.norm < MEANINGLESS.norm and one.element < MEANINGLESS.element
    )


def _tolerated(
    reference: Explored,
    values: dict[str, Any],
    outputs: set[str],
    free: Mapping[str, int],
    on: Arithmetic,
    left_out: Collection[str],
) -> dict[str, bool]:
    """Distributions, and whether results are those of own draws times a power of two."""
    own = honest(reference, values, outputs, on)
    if not own.is_sound:
        return {}
    stored = stored_errors(reference, values, outputs, on)
    skipped = set(left_out)
    found = {}
    for name in (*DISTRIBUTIONS, VARIED):
        if name in skipped or not moved_by(name, free):
            continue
        try:
            drawn = transform(name, values, free, 1, on)
            other = honest(reference, drawn, outputs, on)
            bears = bears_storing(stored_errors(reference, drawn, outputs, on), stored)
        except Exception:  # noqa: BLE001  user code refuses such inputs, in whatever way
            continue
        if (
            other.is_sound
            and bears
            and (name not in SMALL or _is_measurable(other.truth, own.truth, on))
            and not any(
                is_lost(errors, own.errors[output], on.dtype(values[output]))
                for output, errors in other.errors.items()
            )
        ):
            found[name] = _is_scaled(other.truth, own.truth, on)
            skipped.update(*(group for group in ALTERNATIVES if name in group))
    return found


def _is_scaled(here: Mapping[str, Any], own: Mapping[str, Any], on: Arithmetic) -> bool:
    """Whether results are others times a power of two, each times its own."""
    return all(_is_times_a_power(here[n], own[n], on) for n in own if on.is_floating(own[n]))


def _is_times_a_power(here: Any, own: Any, on: Arithmetic) -> bool:
    sizes = root_mean_square(here, on), root_mean_square(own, on)
    if not all(0 < size < math.inf for size in sizes):
        return False
    times = 2.0 ** round(math.log2(sizes[0] / sizes[1]))
    return bool((here == times * own).all())


def _is_measurable(here: Mapping[str, Any], own: Mapping[str, Any], on: Arithmetic) -> bool:
    """Whether small inputs make results that are scaled, or not so small beside own draws' that
    zeros would do."""
    sizes = (
        (root_mean_square(here[name], on), root_mean_square(own[name], on))
        for name in own
        if on.is_floating(own[name])
    )
    return _is_scaled(here, own, on) or all(size >= LEAST_SMALL * usual for size, usual in sizes)


def root_mean_square(exact: Any, on: Arithmetic) -> float:
    """Of all numbers of an array that are finite."""
    x = on.double(exact)
    x = on.xp.where(on.xp.isfinite(x), x, 0.0 * on.xp.ones_like(x))
    return float(on.xp.sqrt((x * x).mean())) if elements(x) else 0.0


def _plain(array: Any, on: Arithmetic) -> NDArray[np.float64]:
    wide = on.wide(array)
    host = wide if isinstance(wide, np.ndarray) else wide.cpu().numpy()
    return np.asarray(host, dtype=np.float64)
