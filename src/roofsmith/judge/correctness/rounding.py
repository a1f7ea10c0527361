"""Jumps that rounding decides: `rint(x / scale)` beside a half, bins, the nearer of two.

There float64, the declared precision and an equally good kernel give different results, and none of
them is wrong. Which elements these are, and what they may be, is seen by moving the inputs by a few
units in their last place. Where both precisions always give the same, a result has room only for
elements that all of these ways together explain, and none where the order of the inputs alone
decides, as in a sort.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from roofsmith.analysis.tolerance import (
    MOST_ELEMENT,
    SUMMED_IN,
    Budget,
    Errors,
    measure,
    off_beyond,
    row_length,
)
from roofsmith.judge.correctness.budgets import is_too_wrong
from roofsmith.judge.correctness.conditioning import Explored
from roofsmith.judge.correctness.distributions import OWN, SIGNIFICAND, TIES, Arithmetic

if TYPE_CHECKING:
    from roofsmith.judge.host.draws import Draws

Array = NDArray[np.generic]

JOLTS = 32
"""Ways of moving the inputs, at most. An element that rounding may tip goes over in about a third
of them at least, so one is overlooked in (2/3)^32 = 2e-6 of the cases."""
HALF_UNITS = (1.0, 2.0, 4.0, 8.0)
"""How far inputs are moved, in turns: by half a unit in their last place, or in that of the array's
`Size`, as adding something of that size would; and by more, for what several roundings in a row
make."""
Size = Literal["typical", "largest", "ties"]
"""Of an array's numbers: their root mean square, or the largest. Or so little that equal numbers
are told apart in float64, and no others change their order: where that decides, which of the equal
ones comes first is anybody's choice."""
TIE = 2.0**-40
"""Share of itself by which a number is moved then, of a type of 24 bits or fewer. Chosen."""
MOST_TIES = 4
"""Times as many elements may be others as some way of telling ties apart changes: all of them
reversed are twice as many as half of them."""
ENOUGH = 16
"""Ways after which a wrong result that no jump has explained by far is taken for wrong."""
ENOUGH_OTHERS = 3
"""The same on inputs that `setup` doesn't draw, where every way changes about as much; but for
ties, of which a way leaves half as they were."""
LONGEST_S = 10.0
"""Nobody waits longer for a wrong result to be explained: on a workload so large that the reference
takes a second for a way, the first ten have to do."""
FEW_SHARE = 1e-3
"""Of elements that may be ill-conditioned where an output doesn't jump. Chosen."""
FAR = 4
"""Times as many wrong elements as honest arithmetic has."""
MOST_OTHERS = 2
"""The same that are let pass on inputs that `setup` doesn't draw, where nearly all elements are
wrong, or none. Chosen."""


@dataclass(slots=True)
class Explanation:
    """Whether moving inputs explains what is wrong with a result, and how long to try."""

    wrong: int
    """Elements beyond the budget; none if they are beyond it together alone."""
    is_other: bool
    """Whether the inputs are of a distribution that `setup` doesn't draw."""
    is_decided: bool
    """Whether arithmetic is known to decide elements of this output."""
    size: Size = "typical"
    """How far they are moved."""
    is_ordered: bool = False
    """Whether the order of the inputs alone seems to decide them."""
    _most: int = field(default=0, init=False)
    _is_covered: bool = field(default=False, init=False)
    _is_last: bool = field(default=False, init=False)

    def seeds(self) -> Iterator[int]:
        """Of the ways that are worth a try."""
        many = self.size == "ties" or not self.is_other
        enough, until = ENOUGH if many else ENOUGH_OTHERS, time.monotonic() + LONGEST_S
        for seed in range(JOLTS):
            self._is_last = seed + 1 == JOLTS
            yield seed
            hopeless = not self.is_decided or max(self.wrong, 1) > FAR * self._most
            if seed >= enough and hopeless and (self.is_ordered or not self._is_covered):
                return
            if time.monotonic() > until:
                return

    def is_complete(self, *, decided: bool, changed: int, covered: bool) -> bool:
        """Whether it is one, after one more way.

        A reference may compute in float64 whatever its arrays are, and two precisions may differ
        once in fifty draws: where moving the inputs explains all, in all ways, it needn't be shown
        that they do, unless arithmetic seems to have no part in it.

        Args:
            decided: whether both precisions differ on the moved inputs.
            changed: elements that moving them made others.
            covered: whether what was seen so far explains what is wrong.
        """
        self.is_decided = self.is_decided or decided
        self._most = max(self._most, changed)
        times = MOST_TIES if self.size == "ties" else MOST_OTHERS if self.is_other else 1
        room = self._most * times
        self._is_covered = covered and self.wrong <= room
        suffices = self._is_last and not self.is_ordered
        return self._is_covered and (self.is_decided or suffices)


def jolted(
    values: Mapping[str, Any], free: Mapping[str, int], seed: int, size: Size, on: Arithmetic
) -> dict[str, Any]:
    """Inputs moved by a few units in their last place; zeros and signs stay, and so does all for
    seed 0.

    Small ones beside a huge one are moved by half of themselves at most, up as often as down: were
    they left where a step down crosses zero, all of them together would move up, and that would
    explain a sum that lacks some of its terms.

    Args:
        values: by name.
        free: the inputs that may be moved.
        seed: of this way.
        size: of numbers, in whose last place small ones are moved too.
        on: NumPy or torch.
    """
    made = dict(values)
    if seed == 0:
        return made
    on.reseed(seed)
    xp = on.xp
    for key in free:
        value = values[key]
        x = on.double(value)
        finite = xp.where(xp.isfinite(x), x, 0.0 * xp.ones_like(x))
        if size == "ties":
            if on.dtype(value) != "float64":
                apart = finite * (1.0 + TIE * on.double(on.uniform(value)))
                made[key] = xp.where(xp.isfinite(x), apart, x)
            continue
        typical = xp.sqrt((finite * finite).mean()) if size == "typical" else abs(finite).max()
        scale = xp.maximum(abs(finite), typical + 0.0 * finite)
        step = HALF_UNITS[seed % len(HALF_UNITS)] * 2.0 ** -SIGNIFICAND[on.dtype(value)] * scale
        step = xp.minimum(step, 0.5 * abs(finite))
        moved = finite + xp.where(on.uniform(value) < 0.5, -step, step)
        made[key] = on.like(xp.where(xp.isfinite(x), moved, x), value)
    return made


def jolt(
    reference: Explored,
    values: Mapping[str, Any],
    outputs: set[str],
    which: tuple[Mapping[str, int], int, Size, str],
    budget: Budget,
    bounds: Sequence[Array],
    on: Arithmetic,
) -> tuple[bool, int] | None:
    """Widen the bounds of an output by what it is for jolted inputs; seed 0 begins anew.

    Args:
        reference: computes it.
        values: of a draw.
        outputs: names of its outputs.
        which: the inputs that may be moved, seed and size of the way to move them, and the output.
        budget: beyond which an element is another one.
        bounds: the least and the largest seen of every element; changed in place.
        on: the arithmetic.

    Returns:
        Whether an element is another one in the declared precision, and how many are others than
        for the inputs as they are. None if the reference refuses such inputs.
    """
    free, seed, size, name = which
    moved = jolted(values, free, seed, size, on)
    try:
        truth = reference.expect(values, outputs, exact=True)[name]
        exact = reference.expect(moved, outputs, exact=True)[name]
        plain = reference.expect(values if size == "ties" else moved, outputs, exact=False)[name]
    except Exception:  # noqa: BLE001  user code refuses such inputs, in whatever way
        return None
    low, high = bounds
    least, most = np.minimum(exact, plain), np.maximum(exact, plain)
    low[...] = least if seed == 0 else np.minimum(low, least)
    high[...] = most if seed == 0 else np.maximum(high, most)
    changed = (off_beyond(some, truth, budget)[0] for some in (exact, plain))
    is_decided = off_beyond(plain, exact, budget)[0].any()
    return bool(is_decided), max(int(np.count_nonzero(some)) for some in changed)


def room_for_rounding(
    draws: Draws, slot: int, name: str, out: Array, budget: Budget
) -> Budget | None:
    """The budget of a draw on which rounding decides some elements, if that explains an output.

    Every element beyond the budget must lie within what honest arithmetic makes of inputs that were
    hardly moved, or no farther beyond it than that is wide, and there may be no more of them than
    that changes. The others must be as exact as ever. Outputs that don't jump may have a few such
    elements, as where an arc sine's argument is nearly 1. Overwrites `expected`.

    On inputs that `setup` doesn't draw, what moving them changes needs no jump: products by
    Strassen's or Winograd's way, and convolutions by Fourier's, are exact in relation to the
    largest numbers around, not to each. So there any element may be as far off, either way, as
    moving takes any of its row; what is beyond that must be within the budget, in either sense. In
    half precision, moving takes all of them so far that the others must be as exact as ever. Of
    equal numbers, drawn to see which comes first, moving says nothing.
    """
    is_floating, is_other = np.issubdtype(out.dtype, np.floating), draws.distribution != OWN
    draws.expect(slot, exact=True)
    truth = draws.expected(slot, name, exact=True).copy()
    off, allowed = off_beyond(out, truth, budget)
    wrong, found = int(np.count_nonzero(off)), measure(out, truth, budget)
    explicable = is_floating and (is_other or may_be_singular(wrong, off.size, found))
    decides_ties = draws.distribution == TIES and draws.may_jump(name)
    if decides_ties or not (draws.may_jump(name) or explicable):
        return None
    others = measure(np.where(off, truth, out).astype(out.dtype), truth, budget)
    if not np.isfinite(truth).all() or others.problem is not None:
        return None
    is_strict = not is_other or out.dtype.name in SUMMED_IN
    if is_strict and others.norm > budget.norm:
        return None
    low, high = (draws.expected(slot, name, exact=exact) for exact in (False, True))
    ordered = draws.is_ordered(name)
    for size in sizes(is_other=is_other, is_ordered=ordered):
        known = size != "ties" and ((is_other and not ordered) or draws.is_decided(name))
        explanation = Explanation(wrong, is_other, known, size, ordered)
        for seed in explanation.seeds():
            decided, changed = draws.jolt(slot, (seed, size, name), budget) or (False, 0)
            if is_other and is_floating:
                reach = _most_of_row(np.maximum(_off(low, truth), _off(high, truth)))
                explained = np.clip(np.subtract(out, truth), -reach, reach)
                covered = _is_within(np.subtract(out, explained), truth, budget)
            else:
                room = allowed + np.subtract(high, low, dtype=np.float64)
                within = np.less_equal(low - room, out) & np.less_equal(out, high + room)
                covered = bool((within | ~off).all())
            complete = explanation.is_complete(decided=decided, changed=changed, covered=covered)
            if (decided or complete) and not is_other and size != "ties":
                draws.note_decided(name)
            if complete:
                return budget.wider(replace(budget, norm=found.norm, element=found.element))
    return None


def sizes(*, is_other: bool, is_ordered: bool) -> Sequence[Size]:
    """How far to move inputs, one after the other until that explains a result.

    Args:
        is_other: whether they are of a distribution that `setup` doesn't draw.
        is_ordered: whether their order alone seems to decide the output.
    """
    size: Size = "largest" if is_other else "typical"
    return ("ties", size) if is_ordered else (size,)


def may_be_singular(wrong: int, size: int, found: Errors) -> bool:
    """Whether so few elements are wrong, and so little, that each may be where the operator is
    ill-conditioned."""
    return 0 < wrong <= max(FEW_SHARE * size, 1) and found.element <= MOST_ELEMENT


def _is_within(out: Array, truth: Array, budget: Budget) -> bool:
    return not is_too_wrong(measure(out, truth, budget), budget, Errors(0.0, 0.0))


def _off(array: Array, truth: Array) -> NDArray[np.float64]:
    return np.abs(array.astype(np.float64) - truth.astype(np.float64))


def _most_of_row(reach: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = reach.reshape(-1, row_length(reach.shape))
    most = np.broadcast_to(rows.max(-1, keepdims=True), rows.shape)
    return most.reshape(reach.shape)
