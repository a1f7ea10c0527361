"""How hard a draw is for everybody's rounding: what honest arithmetic makes of it.

Seen from the reference alone: its own error in the declared precision, and what moving the inputs
by half a unit in their last place does to the float64 result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

from roofsmith.analysis.tolerance import EPSILON, NORM_FLOOR_EPS, SUMMED_IN, Errors
from roofsmith.judge.correctness.dependence import elements
from roofsmith.judge.correctness.distributions import LARGEST, OWN, TIES, Arithmetic, nudged

LOST = 4.0
"""Multiple of the own draws' honest error, or of 16 epsilons, at which an error means nothing."""
MEANINGLESS = Errors(0.2, 0.8)
"""Errors that mean nothing in any type: 64 epsilons of bfloat16 are half of a result."""
SPREAD = 16.0
"""Element-wise over norm-wise, of an error that isn't one of a few elements: what is
ill-conditioned leaps, too, as far as anybody can tell who moves its inputs. Chosen."""
MANY_NUMBERS = 2**20
"""Of outputs: for more, a run of the reference takes long."""
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

    def shaken(self, values: Any, outputs: set[str]) -> Mapping[str, Any] | None:
        """What it computes if every step's result is moved by up to an epsilon of float32.

        None: that isn't known.
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


def honest(
    reference: Explored,
    values: Mapping[str, Any],
    outputs: set[str],
    on: Arithmetic,
    distribution: str = OWN,
) -> Honest:
    """What honest arithmetic makes of a draw from a distribution.

    Of many outputs the reference's own error says enough: moving inputs costs another run.
    """
    alike = distribution == TIES
    truth = reference.expect(values, outputs, exact=True)
    plain = reference.expect(values, outputs, exact=False)
    many = sum(map(elements, truth.values())) > MANY_NUMBERS
    many = many and all(map(on.is_floating, truth.values()))
    near = values if many else nudged(values, 0, on, alike=alike)
    moved = truth if many else reference.expect(near, outputs, exact=True)
    errors, is_sound = {}, True
    for name, exact in truth.items():
        if not on.is_floating(exact):
            errors[name] = Errors(0.0, 0.0)
            is_sound &= bool((moved[name] == exact).all() and (plain[name] == exact).all())
            continue
        largest = LARGEST[on.dtype(plain[name])]
        found = (exact, plain[name]) if many else (exact, plain[name], moved[name])
        if not all(_within(one, largest) for one in found) or not bool((exact != 0).any()):
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


def _within(array: Any, largest: float) -> bool:
    """Whether all numbers lie between these bounds; no NaN does. Without arrays in between, which
    cost as much as what they are made of."""
    return not elements(array) or (bool(-largest <= array.min()) and bool(array.max() <= largest))


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


def root_mean_square(exact: Any, on: Arithmetic) -> float:
    """Of all numbers of an array that are finite; their squares may overflow or vanish."""
    x = on.double(exact)
    x = on.xp.where(on.xp.isfinite(x), x, 0.0 * on.xp.ones_like(x))
    largest = float(abs(x).max()) if elements(x) else 0.0
    if largest == 0:
        return 0.0
    return largest * float(on.xp.sqrt(((x / largest) ** 2).mean()))
