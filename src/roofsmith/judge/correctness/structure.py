"""What every draw of an input has in common: facts that a kernel may rely on.

A matrix that is always symmetric, rows that sum to one, labels coded as floats: `setup` promises
such things by drawing them every time. Draws from other distributions leave those inputs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import permutations
from operator import and_
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofsmith.judge.correctness.shortened_inputs import round_to

Numbers: TypeAlias = NDArray[np.float64]

ALIKE = 1e-3
"""Rows whose sums or lengths differ by less than this share are normalised."""
LONG_ROW = 64
"""Longer rows have to be alike by as much more as the root of their length is longer: sums and
lengths of random numbers come together by themselves, and so does what rounding does to them."""
NATURAL = 0.1
"""Share of the standard deviation that sums and lengths of independent numbers have, beyond which
rows aren't normalised. Chosen."""
TINY = 1e-300
"""In place of a mean length of zero, which is divided by: rows of zeros alone."""
LEAST_ROW = 4
"""Shorter rows are sorted, or sum to nearly the same, by chance, unless there are many."""
MANY_ROWS = 64
"""Rows of two elements or more that aren't all so by chance; nor is every one of as many elements
above another input's. Chosen."""
FEW_KINDS, MANY_PAIRS = 16, 32
"""Elements of a row that may each be of a kind of its own, and how often one is below another, in
all draws together, that isn't so by chance. Chosen."""
FEW_VALUES = 16
MANY_ELEMENTS = 256
"""That many elements with that few values are classes or levels, not quantities."""
HELD_ZEROS = 0.01
"""This share of zeros, at the same places in every draw, is a pattern such as a triangle."""


def promise(draws: list[Numbers], stored_bits: int) -> str | None:
    """What all draws of an input have in common; None if nothing was found.

    Args:
        draws: at least two, from different seeds, of one shape.
        stored_bits: of a significand in the input's type, such as 24 in float32.
    """
    first = draws[0]
    if first.size < LEAST_ROW:
        return "it has too few elements to tell"
    if all(np.array_equal(first, other, equal_nan=True) for other in draws[1:]):
        return "it is the same in every draw"
    if not all(np.isfinite(draw).all() for draw in draws):
        return "it holds infinities or NaN"
    zeros = np.logical_and.reduce([draw == 0 for draw in draws])
    if zeros.mean() > HELD_ZEROS and all(((draw == 0) == zeros).all() for draw in draws):
        return "its zeros are always at the same places"
    for why, found_in in _PROMISES.items():
        if reduce(and_, (int(found_in(draw)) for draw in draws)):
            return why
    if all(_fits(draw, stored_bits // 2) for draw in draws):
        return "its numbers would fit a narrower type"
    return _kinds(draws)


def arrangement(draws: list[Numbers]) -> str | None:
    """How the numbers of all draws are arranged, whatever they are; None if nothing was found."""
    for why, found_in in _PROMISES.items():
        of_values = found_in in (_whole, _few)
        if not of_values and reduce(and_, (int(found_in(draw)) for draw in draws)):
            return why
    return None


def _kinds(draws: list[Numbers]) -> str | None:
    """What tells the elements of short rows apart, along any axis: corners of a box, bounds of an
    interval, a mean beside its deviation."""
    for axis in range(draws[0].ndim):
        length = draws[0].shape[axis]
        if not 1 < length <= FEW_KINDS or draws[0].size // length * len(draws) < MANY_PAIRS:
            continue
        kinds = np.concatenate([np.moveaxis(d, axis, 0).reshape(length, -1) for d in draws], axis=1)
        if any((one <= other).all() for one, other in permutations(kinds, 2)):
            return "some of a row's elements are never above others"
        if not sign(draws) and any(sign([kind]) for kind in kinds):
            return "some of a row's elements are never negative, or never positive"
    return None


def never_above(draws: list[Numbers], others: list[Numbers]) -> bool:
    """Whether no element of an input is ever above the other input's in its place.

    Signs and ranges that don't overlap, which other draws mostly keep, don't count.

    Args:
        draws: of one input, at least two, from different seeds.
        others: of another, from the same seeds.
    """
    return all(
        low.shape == high.shape
        and low.size >= MANY_ROWS
        and bool((low <= high).all())
        and bool(low.max() > high.min())
        for low, high in zip(draws, others, strict=True)
    )


def is_level(draws: list[Numbers]) -> bool:
    """Whether an input is one finite number throughout, and the same in every draw.

    A kernel can leave out such a scale, shift or factor, and be right on all that `setup` draws.
    """
    first = draws[0].reshape(-1)[:1]
    return bool(first.size and np.isfinite(first).all()) and all(
        bool((draw == first).all()) for draw in draws
    )


def sign(draws: list[Numbers]) -> int:
    """1 if no draw has a negative number, -1 if none has a positive one, else 0."""
    if all((draw >= 0).all() for draw in draws):
        return 1
    return -1 if all((draw <= 0).all() for draw in draws) else 0


def _fits(draw: Numbers, bits: int) -> bool:
    return bool(np.array_equal(round_to(draw, bits, np), draw))


def _whole(draw: Numbers) -> bool:
    return bool((draw == np.rint(draw)).all())


def _few(draw: Numbers) -> bool:
    return draw.size >= MANY_ELEMENTS and np.unique(draw).size <= FEW_VALUES


def _symmetric(draw: Numbers) -> bool:
    if draw.ndim < 2 or draw.shape[-1] != draw.shape[-2] or draw.shape[-1] < 2:
        return False
    return bool(np.array_equal(draw, np.swapaxes(draw, -1, -2)))


def _sorted(rows: Numbers) -> bool:
    steps = np.diff(rows, axis=-1)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _same_sums(draw: Numbers) -> bool:
    natural = draw.shape[-1] ** 0.5 * float(np.std(draw))
    return _constant(draw.sum(axis=-1), np.abs(draw).sum(axis=-1), draw.shape[-1], natural)


def _same_lengths(draw: Numbers) -> bool:
    lengths = np.sqrt(np.square(draw).sum(axis=-1))
    natural = draw.shape[-1] ** 0.5 * float(np.std(draw**2)) / max(2 * float(lengths.mean()), TINY)
    return _constant(lengths, lengths, draw.shape[-1], natural)


def _along_some_axis(holds: Callable[[Numbers], bool]) -> Callable[[Numbers], int]:
    """Of a draw, along which axes something holds: a bit for each, the last one's first."""

    def axes(draw: Numbers) -> int:
        found = 0
        for axis in range(draw.ndim):
            rows = np.moveaxis(draw, draw.ndim - 1 - axis, -1)
            length = rows.shape[-1]
            enough = length >= LEAST_ROW or (length > 1 and rows.size // length >= MANY_ROWS)
            if enough and holds(rows):
                found |= 1 << axis
        return found

    return axes


def _constant(found: Numbers, scale: Numbers, row: int, natural: float) -> bool:
    """Rows alike; a single row is if it is one, the sum that people normalise to.

    And more alike than independent numbers of this size would be by nature, such as 1000 plus a
    little each.
    """
    typical = float(np.mean(scale))
    if typical == 0:
        return True
    center = float(np.mean(found)) if np.size(found) > 1 else 1.0
    alike = ALIKE * min(1.0, (LONG_ROW / row) ** 0.5)
    return bool(np.max(np.abs(found - center)) <= min(alike * typical, NATURAL * natural))


_PROMISES: dict[str, Callable[[Numbers], int]] = {
    "its numbers are whole": _whole,
    "it holds few different numbers": _few,
    "it is symmetric": _symmetric,
    "its rows are sorted": _along_some_axis(_sorted),
    "its rows sum to the same": _along_some_axis(_same_sums),
    "its rows have the same length": _along_some_axis(_same_lengths),
}
"""What is found in a draw, as bits: a promise has one that all draws have."""
