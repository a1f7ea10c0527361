"""A graph in groups of loops: what is computed together, in which order, and what is stored.

A group has outer axes, whose iterations are independent, and inner axes, along which it reduces or
scans. Its steps happen in order for every outer index. Cheap values are computed again wherever
they are needed; what many need, and what products are made of, is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal

from roofsmith.computation.sizes import Shape, Size
from roofsmith.proposers.schedules import expressions as e


@dataclass(frozen=True)
class Axis:
    """A loop variable, and how many values it takes."""

    name: str
    size: Size

    @property
    def index(self) -> Size:
        return Size.of(self.name)


@dataclass(frozen=True)
class Buffer:
    name: str
    shape: Shape
    dtype: str
    role: Literal["input", "output", "scratch"]


@dataclass(frozen=True)
class Reduced:
    """`value` over all inner indices made one, for each outer index; then `Held` by its name."""

    name: str
    op: str
    value: e.Expression
    dtype: str
    factors: tuple[e.Expression, e.Expression] | None = None
    """Of a contraction: `value` is their product."""


@dataclass(frozen=True)
class Scanned:
    """Along the only inner axis: `value` reduced with those before it; `Held` in the same pass."""

    name: str
    op: str
    value: e.Expression
    dtype: str


@dataclass(frozen=True)
class Stored:
    """`value` written into a buffer; for each inner index, too, where `inner` is set."""

    buffer: str
    index: e.Index
    shape: Shape
    """What the buffer is seen as, as in `Read`."""
    value: e.Expression
    inner: bool


@dataclass(frozen=True)
class Scattered:
    """`value` combined into a buffer (`set`, add, mul, max, min) in the order of the indices.

    Indices may meet; an outer axis on which elements never meet has its variable in `index`.
    """

    buffer: str
    index: e.Index
    shape: Shape
    op: str
    value: e.Expression


@dataclass(frozen=True)
class Sorted:
    """`value` along the only inner axis, stably sorted into a buffer; `order`: the indices.

    NaN is larger than any number. Only the first `count` are stored.
    """

    buffer: str
    index: e.Index
    shape: Shape
    value: e.Expression
    descending: bool
    order: bool
    count: Size


@dataclass(frozen=True)
class Multiplied:
    """A product of matrices for each outer index: rows and columns, summed up along `depth`.

    Both factors and the result grow by one stride along each of their axes.
    """

    left: e.Read
    right: e.Read
    buffer: str
    index: e.Index
    shape: Shape
    rows: Axis
    columns: Axis
    depth: Axis
    dtype: str


Step = Reduced | Scanned | Stored | Scattered | Sorted


def rewritten(step: Step, change: Callable[[e.Expression], e.Expression]) -> Step:
    """The step with each part of its value changed, and of its factors."""
    value = e.rewritten(step.value, change)
    if not isinstance(step, Reduced) or step.factors is None:
        return replace(step, value=value)
    left, right = step.factors
    factors = e.rewritten(left, change), e.rewritten(right, change)
    return replace(step, value=value, factors=factors)


@dataclass(frozen=True)
class Group:
    """Loops that run together; a group begins when those before it have ended."""

    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    steps: tuple[Step, ...]
    product: Multiplied | None = None
    """In place of steps, where a back end multiplies matrices by a call."""
    loop: int | None = None
    """Of `Program.loops`, that repeats it with those beside it."""

    @property
    def reads(self) -> Iterator[e.Read]:
        """What its steps read of arrays, but for indices."""
        return e.reads(*(step.value for step in self.steps))


@dataclass(frozen=True)
class Repetition:
    """Groups that are repeated, each time on what the time before has made."""

    count: Size
    moves: Mapping[str, str]
    """Scratch that an iteration begins with, and scratch that then holds what is next's."""

    @property
    def handed_on(self) -> Mapping[str, str]:
        """Behind each iteration, the last, too: names, and whose memory they get."""
        free = [name for name in self.moves if name not in self.moves.values()]
        left = [name for name in self.moves.values() if name not in self.moves]
        return {**self.moves, **dict(zip(left, free, strict=True))}


@dataclass(frozen=True)
class Program:
    buffers: Mapping[str, Buffer]
    numbers: Mapping[str, str]
    """Those given by value, with their dtype."""
    groups: tuple[Group, ...]
    places: e.Places
    """What indices that aren't affine mean."""
    loops: Mapping[int, Repetition] = field(default_factory=dict)

    @property
    def dims(self) -> frozenset[str]:
        """Names of sizes that values and loops depend on, beside those of arrays' shapes."""
        places = self.places.meaning()
        steps = [step for group in self.groups for step in group.steps]
        found = {name for loop in self.loops.values() for name in loop.count.dims}
        found |= {name for step in steps for name in e.names_in(step.value, places)}
        own = {step.name for step in steps if isinstance(step, Reduced | Scanned)}
        axes = {axis.name for group in self.groups for axis in (*group.outer, *group.inner)}
        return frozenset(found - own - axes - places.keys() - set(self.places.ranges))

    def runs(self) -> Iterator[tuple[Repetition | None, tuple[Group, ...]]]:
        """Groups that follow one another in one loop, or in none.

        Raises:
            ValueError: a loop's groups don't follow one another.
        """
        seen = set[int]()
        for loop, groups in groupby(self.groups, key=lambda group: group.loop):
            if loop in seen:
                raise ValueError(f"loop {loop} is in two parts")
            if loop is not None:
                seen.add(loop)
            yield (None if loop is None else self.loops[loop]), tuple(groups)
