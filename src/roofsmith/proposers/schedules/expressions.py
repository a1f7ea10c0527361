"""Values of single elements, as back ends render them: reads of arrays at indices, and arithmetic.

An index is a `Size` in which names of loop variables stand beside those of dims, and beside
`Places`: indices that aren't affine, such as what another array holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from roofsmith.computation.sizes import Shape, Size

Index = tuple[Size, ...]
"""One for each axis of an array."""


@dataclass(frozen=True)
class Expression:
    """The value of one element; `dtype` in NumPy's names."""

    dtype: str

    @property
    def parts(self) -> tuple[Expression, ...]:
        return ()


@dataclass(frozen=True)
class Read(Expression):
    """An element of a buffer, which lies there in row-major order."""

    buffer: str
    index: Index
    shape: Shape
    """What the buffer is seen as: its own shape, or another of as many elements."""


@dataclass(frozen=True)
class Argument(Expression):
    """A number that the kernel is given by value."""

    name: str


@dataclass(frozen=True)
class Number(Expression):
    value: float | int | bool


@dataclass(frozen=True)
class Position(Expression):
    """An index as a number, of int64 or another integer type."""

    index: Size


@dataclass(frozen=True)
class Held(Expression):
    """What a step of the same group has computed: `Reduced` for this row, `Scanned` so far."""

    name: str


@dataclass(frozen=True)
class Operation(Expression):
    """An operation of the graph's vocabulary on operands of one dtype."""

    op: str
    args: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.args


@dataclass(frozen=True)
class Converted(Expression):
    """The same number in another dtype."""

    arg: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.arg,)


@dataclass(frozen=True)
class Inside:
    """Whether an index lies in [low, high)."""

    index: Size
    low: Size | None
    """None: nothing needs to be asked."""
    high: Size | None


@dataclass(frozen=True)
class Within(Expression):
    """One value where all conditions hold, else the other; only the chosen one may be read."""

    conditions: tuple[Inside, ...]
    inside: Expression
    outside: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.inside, self.outside)


@dataclass(frozen=True)
class Quotient:
    """An index divided by a positive size, rounded down; neither is negative."""

    index: Size
    size: Size


@dataclass(frozen=True)
class Remainder:
    """What such a division leaves."""

    index: Size
    size: Size


@dataclass(frozen=True)
class Chosen:
    """An index that another array holds."""

    value: Expression


Place = Quotient | Remainder | Chosen


@dataclass
class Places:
    """Names for indices that aren't affine, each once."""

    names: dict[Place, str] = field(default_factory=dict)
    ranges: dict[str, Size] = field(default_factory=dict)
    """How many values a loop variable, or a place, takes: 0 and those behind it."""
    taken: frozenset[str] = frozenset()
    """Names of arrays, numbers and dims."""

    def size(self, place: Place) -> Size:
        """As a factor in an index."""
        if place not in self.names:
            used = self.taken.union(self.names.values())
            numbers = itertools.count(len(self.names))
            self.names[place] = next(n for at in numbers if (n := f"at{at}_") not in used)
        name = self.names[place]
        if isinstance(place, Remainder):
            self.ranges[name] = place.size
        return Size.of(name)

    def below(self, index: Size) -> Size | None:
        """The least size that such an index stays below, and is never negative; None: unknown."""
        total = Size.of(1)
        for factors, count in index.terms:
            variables = [name for name in factors if name in self.ranges]
            others = [name for name in factors if name not in self.ranges]
            if count < 0 or len(variables) > 1 or any(name in self.meaning() for name in others):
                return None
            coefficient = Size(((tuple(others), count),), index.quotients) + 0
            last = self.ranges[variables[0]] - 1 if variables else Size.of(1)
            total = total + coefficient * last
        return total

    def divided(self, index: Size, by: Size) -> Size:
        """Rounded down; what is known to divide, or to be too small, isn't divided at run time."""
        whole, rest = self._split(index, by)
        if rest == Size.of(0) or self.below(rest) == by:
            return whole
        return whole + self.size(Quotient(rest, by))

    def remainder(self, index: Size, by: Size) -> Size:
        """What `divided` leaves."""
        _, rest = self._split(index, by)
        if rest == Size.of(0) or self.below(rest) == by:
            return rest
        return self.size(Remainder(rest, by))

    def _split(self, index: Size, by: Size) -> tuple[Size, Size]:
        whole = rest = Size.of(0)
        if any(count < 0 for _, count in index.terms):  # a part of it could be negative
            return whole, index
        for term in index.terms:
            one = Size((term,), index.quotients) + 0
            part = exactly(one, by)
            whole, rest = (whole, rest + one) if part is None else (whole + part, rest)
        return whole, rest

    def meaning(self) -> Mapping[str, Place]:
        """By name, those that others are made of first."""
        return {name: place for place, name in self.names.items()}


def flat(index: Index, shape: Shape) -> Size:
    """Where an element lies in row-major order."""
    place = Size.of(0)
    for part, size in zip(index, shape, strict=True):
        place = place * size + part
    return place


def exactly(whole: Size, part: Size) -> Size | None:
    """`whole / part` where both are single products and nothing is left."""
    if len(whole.terms) != 1 or len(part.terms) != 1:
        return None
    (factors, count), (divisors, by) = whole.terms[0], part.terms[0]
    left = list(factors)
    for name in divisors:
        if name not in left:
            return None
        left.remove(name)
    if count % by:
        return None
    return Size(((tuple(left), count // by),), whole.quotients) + 0


def walk(value: Expression) -> Iterator[Expression]:
    """The expression and what it is computed from, operands first, each once."""
    seen: set[Expression] = set()

    def visit(one: Expression) -> Iterator[Expression]:
        if one in seen:
            return
        seen.add(one)
        for part in one.parts:
            yield from visit(part)
        yield one

    yield from visit(value)


def reads(*values: Expression) -> Iterator[Read]:
    """What is read of arrays, but for indices."""
    return (one for value in values for one in walk(value) if isinstance(one, Read))


def indices(value: Expression) -> Iterator[Size]:
    """Every index in it; what `Places` stand for isn't looked into."""
    for one in walk(value):
        match one:
            case Read():
                yield from one.index
            case Position():
                yield one.index
            case Within():
                yield from (condition.index for condition in one.conditions)
            case _:
                pass


def names_in(value: Expression, places: Mapping[str, Place]) -> frozenset[str]:
    """Loop variables, dims and held values that it depends on, through places, too."""
    found: set[str] = set()
    waiting = [*indices(value)]
    held = {one.name for one in walk(value) if isinstance(one, Held)}
    while waiting:
        for name in waiting.pop().dims - found:
            found.add(name)
            match places.get(name):
                case Quotient(index, size) | Remainder(index, size):
                    waiting += [index, size]
                case Chosen(inner):
                    waiting += list(indices(inner))
                    held |= {one.name for one in walk(inner) if isinstance(one, Held)}
                case None:
                    pass
    return frozenset(found | held)


def rewritten(value: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression with each of its parts changed, operands first."""
    known: dict[Expression, Expression] = {}

    def visit(one: Expression) -> Expression:
        if one not in known:
            match one:
                case Operation():
                    new: Expression = replace(one, args=tuple(map(visit, one.args)))
                case Converted():
                    new = replace(one, arg=visit(one.arg))
                case Within():
                    new = replace(one, inside=visit(one.inside), outside=visit(one.outside))
                case _:
                    new = one
            known[one] = change(new)
        return known[one]

    return visit(value)
