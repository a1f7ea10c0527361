"""What inputs are drawn from, besides the reference's own `setup`.

Each distribution is made from an own draw, in arithmetic that NumPy and torch share. Where an
operator gives infinities or loses its accuracy, the reference shows it, and the distribution isn't
used: see `judge.correctness.exploration`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from roofsmith.analysis.tolerance import Errors, Roundings
from roofsmith.domain.workload import AS_DRAWN

OWN = AS_DRAWN

LARGEST: Mapping[str, float] = {
    "float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}  # fmt: skip
"""The largest finite number of each floating type."""
SMALLEST_NORMAL: Mapping[str, float] = {
    "float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022,
}  # fmt: skip
SIGNIFICAND: Mapping[str, int] = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""Bits, with the one that isn't stored."""

SPIKES = 8
"""In a row, on average."""
ALIKE = 1 / 16
"""Share of itself by which each row differs from the first, where rows are nearly alike. Chosen."""
ZERO_ROWS = 1 / 4
"""Share of rows that are zeros, where some are. Chosen."""
LEVEL = 2
"""In place of a sign: one number throughout, the same in every draw, such as a scale of ones."""
INDEX = 3
"""In place of a sign: whole numbers that say a place in another array."""
VARIED = "constants varied"
"""A distribution that changes those alone, and no other does."""
STRETCHES = "stretches on different scales"
"""A distribution whose numbers are as usual, but for their scale: none is huge beside others."""
FEW_NUMBERS, AS_OFTEN = 16, 8
"""Different numbers where there are few, and how often each comes in a row on average: of short
rows there are fewer, but two. Chosen."""
LEAST_STRETCH, STRETCHES_IN_ONE = 16, 16
"""Elements of the shortest, and of how many each longer one consists. Chosen."""
MASK = 1e4
"""Magnitude of a masked element in units of the root mean square: exp of it is zero."""


class Arithmetic(Protocol):
    """NumPy or torch, as far as distributions need it."""

    xp: Any
    """The module: `where`, `flip`, `sqrt`, `log`, `cos`, `ldexp`, `round` mean the same in both."""

    def is_floating(self, value: Any) -> bool:
        """Whether it is an array of floating-point numbers."""
        ...

    def dtype(self, array: Any) -> str:
        """Its element type."""
        ...

    def wide(self, array: Any) -> Any:
        """A copy of an array in at least float32, to compute with."""
        ...

    def double(self, array: Any) -> Any:
        """A copy of an array in float64."""
        ...

    def like(self, array: Any, model: Any) -> Any:
        """An array in the element type of another."""
        ...

    def uniform(self, model: Any) -> Any:
        """Numbers in [0, 1), of the same shape, repeatable after `reseed`."""
        ...

    def errors(self, out: Any, truth: Any) -> Errors:
        """How far an output is from the truth."""
        ...

    def reseed(self, seed: int) -> None:
        """Begin the numbers of `uniform` anew."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """One input's own draw, and where fresh randomness comes from."""

    x: Any
    """In at least float32."""
    rms: Any
    tiny: float
    """Smallest normal number of its declared type."""
    uniform: Callable[[], Any]
    xp: Any


def _permuted(s: Source) -> Any:
    return s.xp.flip(s.x, (-1,)) * s.xp.where(s.uniform() < 0.5, -1.0, 1.0)


def _normal(s: Source) -> Any:
    radius = s.xp.sqrt(-2.0 * s.xp.log(1.0 - s.uniform()))
    return s.rms * radius * s.xp.cos(6.283185307179586 * s.uniform())


def _uniform(s: Source) -> Any:
    return s.rms * 3.0**0.5 * (2.0 * s.uniform() - 1.0)


def _few_numbers(s: Source) -> Any:
    """Equally spaced, each in all bits and none another's negative; in all inputs of one size the
    same ones, so that numbers of one equal some of another."""
    count = float(max(2, min(FEW_NUMBERS, s.x.shape[-1] // AS_OFTEN)))
    size = 2.0 ** s.xp.round(s.xp.log2(s.rms * 3.0**0.5))
    return size * (2.0 * (s.xp.floor(count * s.uniform()) + 0.381966011250105) / count - 1.0)


def _scaled(exponent: int) -> Callable[[Source], Any]:
    return lambda s: s.x * 2.0**exponent


def _constant_rows(s: Source) -> Any:
    return s.x[..., :1] + 0.0 * s.x


def _rows_apart(s: Source) -> Any:
    """Every row on a scale of its own, from 1/16 to 16."""
    exponent = s.xp.floor(9.0 * s.uniform()[..., :1]) - 4.0
    return s.x * 2.0**exponent


def _rows_alike(s: Source) -> Any:
    """All rows nearly the first: what takes them for independent is wrong."""
    rows = s.x.reshape(-1, s.x.shape[-1])
    return (rows[:1] + rows * ALIKE).reshape(s.x.shape)


def _stretches(s: Source) -> Any:
    """Stretches on scales of their own, within longer ones that are: no part stands for the rest.

    The longest are a quarter to a 32nd of all; the shortest have some tens of elements.
    """
    made = 0.0 * s.x.reshape(-1) + 1.0
    shift, chance = float(s.uniform().reshape(-1)[0]), s.uniform().reshape(-1)
    used = 0
    for length in _stretch_lengths(max(len(made) >> 2 + int(4.0 * shift), 1)):
        count = len(made) // length
        parts = made[: count * length].reshape(count, length)
        parts *= s.xp.where(chance[used : used + count] < 0.5, 0.6, 1.4).reshape(-1, 1)
        used += count
    return s.x * made.reshape(s.x.shape)


def _stretch_lengths(longest: int) -> Iterator[int]:
    yield longest
    while (longest := longest // STRETCHES_IN_ONE) >= LEAST_STRETCH:
        yield longest


def _negative(s: Source) -> Any:
    """A maximum that starts from zero has nothing above it."""
    return -abs(s.x)


def _sparse(s: Source) -> Any:
    return s.xp.where(s.uniform() < 0.9, 0.0 * s.x, s.x)


def _rows_of_zeros(s: Source) -> Any:
    """A quarter of them, or one: what divides by a row's size has to be safe from these."""
    if s.x.shape[-1] == math.prod(s.x.shape):
        return s.x
    chance = s.uniform()[..., :1]
    return s.xp.where((chance < ZERO_ROWS) | (chance == chance.max()), 0.0 * s.x, s.x)


def _masked(s: Source) -> Any:
    return s.xp.where(s.uniform() < 0.125, -MASK * s.rms + 0.0 * s.x, s.x)


def _denormal(s: Source) -> Any:
    return s.xp.where(s.uniform() < 0.125, s.tiny * s.uniform(), s.x)


def _spiky(exponent: int) -> Callable[[Source], Any]:
    """A few elements of every row outweigh all others: what leaves some out misses them."""

    def make(s: Source) -> Any:
        share = min(SPIKES / s.x.shape[-1], 0.5)
        return s.xp.where(s.uniform() < share, s.x * 2.0**exponent, s.x)

    return make


def _lone(exponent: int, *, outweighs: bool = False) -> Callable[[Source], Any]:
    """One element of all: what judges the rest by what it reads can't know of it unread.

    Args:
        exponent: of two, by which it is larger than others.
        outweighs: be it larger still, if that takes more to weigh as much as all others together:
            else the mean of half of very many numbers is right.
    """

    def make(s: Source) -> Any:
        chance = s.uniform()
        times = max(2.0**exponent, math.prod(s.x.shape) if outweighs else 0.0)
        spike = s.rms * times + 0.0 * s.x
        return s.xp.where(chance == chance.max(), s.xp.where(s.x < 0.0, -spike, spike), s.x)

    return make


def _varied(s: Source) -> Any:
    """Half to one and a half times what it was; from minus to plus a half where that was zero."""
    chance = s.uniform()
    return s.xp.where(s.x == 0.0, chance - 0.5, s.x * (0.5 + chance))


def _few_indices(flat: Any, chance: Any, on: Arithmetic) -> Any:
    """Four of them."""
    return flat[_places(on.xp.floor(FEW_INDICES * chance) * (len(flat) // FEW_INDICES), on)]


def _hot_index(flat: Any, chance: Any, on: Arithmetic) -> Any:
    """Half of all are one."""
    return on.xp.where(chance < 0.5, flat[len(flat) // 2], flat)


def _in_order(flat: Any, chance: Any, on: Arithmetic) -> Any:  # noqa: ARG001
    return flat[on.xp.argsort(flat)]


def _as_in_text(flat: Any, chance: Any, on: Arithmetic) -> Any:
    """The one of rank k comes in proportion to 1 / k (Zipf's law)."""
    return flat[_places(on.xp.floor(len(flat) ** chance) - 1, on)]


def _places(numbers: Any, on: Arithmetic) -> Any:
    """Numbers as places: `argsort` gives these in both libraries."""
    return on.like(numbers, on.xp.argsort(numbers))


FEW_INDICES = 4
INDICES: Mapping[str, Callable[[Any, Any, Arithmetic], Any]] = {
    "few different indices": _few_indices,
    "one hot index": _hot_index,
    "indices in order": _in_order,
    "indices as in text": _as_in_text,
}
"""Of whole numbers that say a place: what collides heavily, or never where it is wide apart."""

CONSTANT_ROWS, ROWS_ALIKE, MASKED = "constant rows", "rows alike", "masked"

PERMUTED, NORMAL, UNIFORM = "flipped, signs at random", "normal", "uniform"
TIES = "few different numbers"
"""Of which many are equal: where the order of numbers decides, which of these comes first. Used
where nothing else decides, and the reference always takes the first or always the last."""
ROWS_APART, NEGATIVE = "rows on different scales", "all negative"
SPARSE, ROWS_OF_ZEROS, DENORMAL = "sparse", "rows of zeros", "denormals among the others"

DISTRIBUTIONS: Mapping[str, Callable[[Source], Any]] = {
    PERMUTED: _permuted,
    NORMAL: _normal,
    TIES: _few_numbers,
    UNIFORM: _uniform,
    "times 2^10": _scaled(10),
    "times 2^5": _scaled(5),
    "times 2^2": _scaled(2),
    "times 2^-20": _scaled(-20),
    "times 2^-10": _scaled(-10),
    "times 2^-4": _scaled(-4),
    "spikes, times 2^10": _spiky(10),
    "spikes, times 2^4": _spiky(4),
    "a lone spike of 2^20 or more": _lone(20, outweighs=True),
    "a lone spike of 2^12": _lone(12),
    "a lone spike of 2^4": _lone(4),
    CONSTANT_ROWS: _constant_rows,
    ROWS_APART: _rows_apart,
    ROWS_ALIKE: _rows_alike,
    STRETCHES: _stretches,
    NEGATIVE: _negative,
    SPARSE: _sparse,
    ROWS_OF_ZEROS: _rows_of_zeros,
    MASKED: _masked,
    DENORMAL: _denormal,
}
"""By the name under which people meet them."""

SPIKY = ("spikes, times 2^10", "spikes, times 2^4")
LONE = ("a lone spike of 2^20 or more", "a lone spike of 2^12", "a lone spike of 2^4")
LARGER = "times 2^5"
LARGE = ("times 2^10", LARGER, "times 2^2")
SMALL = ("times 2^-20", "times 2^-10", "times 2^-4")
LEFT_OUT = (*SPIKY, *LONE, STRETCHES, VARIED)
"""What leaves elements or whole inputs out shows on these; it may do so at the given sizes only."""
FIRST = (*LARGE, *LEFT_OUT, TIES, *INDICES)
"""Of other distributions, on given workloads always: beside that, what overflows, what is right for
small numbers only, what is equal, and what collides shows on them."""
ALTERNATIVES = (
    LARGE,
    SMALL,
    SPIKY,
    LONE,
    (TIES, UNIFORM),
)
"""Of each of these, only the first that an operator tolerates is used."""
UNLIKE = (STRETCHES, PERMUTED, NORMAL, UNIFORM, ROWS_APART, NEGATIVE)
"""Where terms of a sum aren't all equal, or next to nothing beside one. Chosen; float32 sums one by
one were within a quarter of n u there (tests/unit/test_distributions.py adds such up)."""
CANCELLING = (CONSTANT_ROWS, ROWS_ALIKE, MASKED)
"""Where differences of numbers cancel that never do on own draws."""
NEEDLESS = (CONSTANT_ROWS, SPIKY[0], *LONE[:2])
"""Where an element depends on a few inputs. One number throughout leaves what is small beside the
others of its row alone, a huge one leaves it beside that: whoever rounds it in relation to these,
or to the others of a tile, would be wrong. And who leaves an input out shows on own draws."""
ZEROS = (SPARSE, ROWS_OF_ZEROS)
"""Where numbers are zero that never were."""
ROUNDED_APART = (*CANCELLING, *SMALL)
"""Left out where arithmetic decides integers, such as the nearest of some points or a bin: rounding
decides very many of them there."""


def transform(
    name: str, values: Mapping[str, Any], free: Mapping[str, int], seed: int, on: Arithmetic
) -> dict[str, Any]:
    """Inputs of another distribution, made from an own draw.

    Args:
        name: of the distribution.
        values: the draw: arrays and numbers by name.
        free: the arrays that may change, each with the sign that its numbers always have, 0,
            `LEVEL` or `INDEX`.
        seed: of this draw.
        on: NumPy or torch.
    """
    if name == OWN:
        return dict(values)
    moves = moved_by(name, free)
    if name in INDICES:
        on.reseed(seed)
        return {k: redrawn(name, v, on) if k in moves else v for k, v in values.items()}
    make = _varied if name == VARIED else DISTRIBUTIONS[name]
    if name in LONE and len(moves) > 1:  # the product of two would outweigh what is to be seen
        moves = frozenset([sorted(moves)[seed % len(moves)]])
    on.reseed(seed)
    return {
        key: _with_sign(make(_source(value, on)), free[key], value, on) if key in moves else value
        for key, value in values.items()
    }


def moved_by(name: str, free: Mapping[str, int]) -> frozenset[str]:
    """The arrays that a distribution changes, of those that may."""
    kind = INDEX if name in INDICES else LEVEL if name == VARIED else None
    kinds = {key: sign if sign in (INDEX, LEVEL) else None for key, sign in free.items()}
    return frozenset(key for key, found in kinds.items() if found == kind)


def redrawn(name: str, value: Any, on: Arithmetic) -> Any:
    """Whole numbers of one of `INDICES`, made of those of an own draw."""
    flat = value.reshape(-1)
    made = INDICES[name](flat, on.uniform(on.double(flat)), on)
    return on.like(made.reshape(value.shape), value)


def roundings_on(name: str, *, one_by_one: bool) -> Roundings:
    """What may be assumed of rounding errors on a distribution other than the own draws'.

    Args:
        name: of the distribution.
        one_by_one: whether kernels may add up all terms of a sum in their order, as on a host.
    """
    if name in CANCELLING:
        return "cancelling"
    if not one_by_one:
        return "random"
    return "dominated" if name in UNLIKE else "alike"


def nudged(
    values: Mapping[str, Any], seed: int, on: Arithmetic, *, alike: bool = False
) -> dict[str, Any]:
    """Floating inputs as their storage could have rounded them: up to half a unit off, tiny ones
    flushed to zero. What that does to the result, no kernel can be blamed for.

    Args:
        values: by name.
        seed: of this way.
        on: NumPy or torch.
        alike: all by the same share of themselves, so that equal numbers stay equal.
    """
    on.reseed(seed)
    made = dict(values)
    for key, value in values.items():
        if on.is_floating(value):
            dtype = on.dtype(value)
            half = 2.0 ** -SIGNIFICAND[dtype]
            share = 0.5 if alike else 2.0 * on.uniform(value) - 1.0
            moved = on.double(value) * (1.0 + half * share)
            made[key] = on.xp.where(abs(moved) < SMALLEST_NORMAL[dtype], 0.0 * moved, moved)
    return made


def _source(value: Any, on: Arithmetic) -> Source:
    """An array without dimensions is a row of one."""
    x = on.wide(value).reshape(value.shape or (1,))
    rms = on.xp.sqrt((x * x).mean())
    tiny = SMALLEST_NORMAL[on.dtype(value)]
    return Source(x, rms, tiny, lambda: on.uniform(value).reshape(x.shape), on.xp)


def _with_sign(made: Any, sign: int, value: Any, on: Arithmetic) -> Any:
    if sign in {1, -1}:
        made = abs(made) * float(sign)
    return on.like(made.reshape(value.shape), value)
