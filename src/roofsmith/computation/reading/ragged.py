"""Iterations whose arrays grow or shrink by as much each, as under a diagonal: whole, with bounds.

An array of all iterations has the axis as long as it ever is; what lies outside an iteration's
own part is never summed up, and never written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from roofsmith.computation import graph as g
from roofsmith.computation.building import Builder
from roofsmith.computation.reading import forms
from roofsmith.computation.sizes import Size

Numbers = tuple[int, tuple[int, ...]]
"""The first iteration's, and what each loop adds."""


@dataclass(frozen=True)
class Ragged:
    """Which part of an axis an iteration has."""

    axis: int
    """Behind those of iterations."""
    low: Numbers
    high: Numbers
    """Behind the last."""


class NoRagged(Exception):  # noqa: N818 - the loop is left as it is
    """Iterations' arrays differ otherwise."""


def axis_that_differs(nodes: Sequence[g.Node]) -> int:
    """The only axis along which shapes differ."""
    shapes = [tuple(size.at({}) for size in one.shape) for one in nodes]
    if len({len(one) for one in shapes}) > 1:
        raise NoRagged
    found = [axis for axis, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1]
    if len(found) != 1:
        raise NoRagged
    return found[0]


@dataclass(frozen=True)
class RaggedView:
    """A view of all iterations, of which each sees its own part."""

    parts: tuple[tuple[int, ...], ...]
    """Offsets of all iterations, for each axis of what is viewed."""
    span: int
    """Of the axis."""
    ragged: Ragged


def ragged_view(
    views: Sequence[g.View], axis: int, arg: Ragged | None,
    affine: Callable[[Sequence[int]], Numbers],
) -> RaggedView:  # fmt: skip
    """What iterations see, in places of the array itself.

    Args:
        views: of iterations; their strides are the same.
        axis: that differs.
        arg: of what is viewed.
        affine: numbers of iterations as a progression; raises where they are none.
    """
    first = views[0]
    sources = [at for at, part in enumerate(first.index) if part.strides[axis] != Size.of(0)]
    if len(sources) != 1 or first.index[sources[0]].strides[axis] != Size.of(1):
        raise NoRagged
    (source,) = sources
    offsets = [[one.index[at].offset.at({}) for one in views] for at in range(len(first.index))]
    lows = offsets[source]
    if any(step != Size.of(0) for at, step in enumerate(first.index[source].strides) if at != axis):
        raise NoRagged
    if arg is not None:
        if arg.axis != source or any(lows):
            raise NoRagged
        ragged = replace(arg, axis=axis)
        return RaggedView(tuple(map(tuple, offsets)), -1, ragged)
    ends = [low + one.shape[axis].at({}) for low, one in zip(lows, views, strict=True)]
    start, end = min(lows), max(ends)
    low, high = (affine([place - start for place in places]) for places in (lows, ends))
    offsets[source] = [start] * len(views)
    return RaggedView(tuple(map(tuple, offsets)), end - start, Ragged(axis, low, high))


def inside(b: Builder, iterations: Sequence[int], shape: Sequence[int], ragged: Ragged) -> g.Id:
    """Whether an element is an iteration's own; `shape` has the axes of iterations in front."""
    count = len(iterations)
    at = forms.places(b, shape, count + ragged.axis)
    test: g.Id | None = None
    for op, (base, steps) in (("ge", ragged.low), ("lt", ragged.high)):
        if not any(steps) and base == (0 if op == "ge" else shape[count + ragged.axis]):
            continue
        parts = [] if base == 0 and any(steps) else [b.dimension(base)]
        for loop, step in enumerate(steps):
            if step:
                own = forms.places(b, shape, loop)
                parts.append(own if step == 1 else b.apply("mul", own, b.dimension(step)))
        bound = parts[0]
        for part in parts[1:]:
            bound = b.apply("add", part, bound)
        one = b.apply(op, at, bound)
        test = one if test is None else b.apply("and", test, one)
    assert test is not None  # it has an end
    return forms.broadcast_to(b, test, shape)


def masked(
    b: Builder, iterations: Sequence[int], place: g.Id, ragged: Ragged, neutral: Any
) -> g.Id:
    """The array with a number where elements are no iteration's own."""
    shape = forms.extent(b, place)
    other = forms.full(b, shape, b.constant(neutral, b[place].dtype))
    return b.apply("where", inside(b, iterations, shape, ragged), place, other)


def common(found: Sequence[Ragged | None], ranks: Sequence[int], rank: int) -> Ragged | None:
    """Of operands that are broadcast to a rank: the part that they all have."""
    seen = {
        replace(one, axis=one.axis + rank - own)
        for one, own in zip(found, ranks, strict=True) if one is not None
    }  # fmt: skip
    if len(seen) > 1:
        raise NoRagged
    return seen.pop() if seen else None


def spans_agree(sizes: Sequence[int]) -> bool:
    """Whether axes of operands can be broadcast."""
    return len(set(sizes) - {1}) <= 1


NEUTRAL = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}
"""What changes no reduction of floats."""
