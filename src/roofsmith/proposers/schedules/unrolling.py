"""Reductions along short axes of known size, such as windows, written out term by term.

The loop that stays innermost is then one that is contiguous, and long.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce

from roofsmith.computation import graph as g
from roofsmith.computation.building import ONE, ZERO, Builder
from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Axis, Group, Reduced, Step, Stored
from roofsmith.proposers.schedules.lowering import within
from roofsmith.proposers.schedules.passes import is_sum
from roofsmith.proposers.schedules.strides import coefficient, substituted, walked, work

FEW = 4
"""Terms that are written out whatever needs them. Chosen: coordinates, colours, 2 x 2 windows."""
MOST_TERMS = 32
"""Of a window that is written out: 5 x 5 is. Chosen."""
TINY = 8
"""Neighbours below which compilers write a loop out by themselves, and better. Chosen."""
MOST_WORK = 256
"""Operations of what is written out. Chosen."""
LARGEST_STEP = 4
"""Between neighbours along the loop that stays, for vectors to be worth it. Chosen."""

_OPS = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


def with_short_sums(graph: g.Graph) -> g.Graph:
    """The graph with reductions of few elements as operations on each of them."""
    builder = Builder()
    places: dict[g.Id, g.Id] = {}
    for place, node in enumerate(graph.nodes):
        moved = node.moved(places)
        if isinstance(moved, g.Reduce) and _is_short(builder, moved):
            places[place] = _written_out(builder, moved)
        else:
            places[place] = builder.add(moved)
    outputs = {name: places[at] for name, at in graph.outputs.items()}
    return replace(builder.graph(**outputs), notes=graph.notes)


def _is_short(b: Builder, node: g.Reduce) -> bool:
    counts = [b.shape(node.arg)[axis].constant for axis in node.axes]
    is_same = node.op in _OPS and node.dtype == b[node.arg].dtype != "bool"
    return is_same and all(counts) and math.prod(filter(None, counts)) <= FEW


def _written_out(b: Builder, node: g.Reduce) -> g.Id:
    """One element after the other, in the order in which they lie."""
    shape = b.shape(node.arg)
    kept = [axis for axis in range(len(shape)) if axis not in node.axes]
    terms = []
    for at in itertools.product(*(range(shape[axis].constant or 0) for axis in node.axes)):
        fixed = dict(zip(node.axes, map(Size.of, at), strict=True))
        index = [
            g.Affine(fixed.get(axis, ZERO), tuple(ONE if axis == one else ZERO for one in kept))
            for axis in range(len(shape))
        ]
        terms.append(b.view(node.arg, node.shape, index))
    return reduce(lambda left, right: b.apply(_OPS[node.op], left, right), terms)


def unrolled(group: Group, places: Mapping[str, e.Place]) -> Group:
    """The group without its short inner axes, where another axis is as good for vectors."""
    short = tuple(axis for axis in group.inner if axis.size.constant is not None)
    counts = [axis.size.constant or 1 for axis in short]
    if not short or math.prod(counts) > MOST_TERMS or not group.outer:
        return group
    names = {axis.name for axis in short}
    for step in group.steps:
        if isinstance(step, Stored) and not step.inner:
            continue
        if not isinstance(step, Reduced) or step.op not in _OPS or step.value.dtype != step.dtype:
            return group
        if work([step.value]) * math.prod(counts) > MOST_WORK:
            return group
        if _is_hidden(names, e.indices(step.value), places):
            return group
    if not _has_lanes(group, group.outer, tiny=len(short) == len(group.inner)):
        return group
    steps: list[Step] = []
    held: dict[str, e.Expression] = {}
    kept = tuple(axis for axis in group.inner if axis not in short)

    def known(value: e.Expression) -> e.Expression:
        return held.get(value.name, value) if isinstance(value, e.Held) else value

    for step in group.steps:
        value = e.rewritten(step.value, known)
        if not isinstance(step, Reduced):
            steps.append(replace(step, value=value))
            continue
        terms = [
            _at(value, {axis.name: Size.of(at) for axis, at in zip(short, index, strict=True)})
            for index in itertools.product(*map(range, counts))
        ]
        op = _OPS[step.op]
        total = reduce(lambda a, b, op=op: e.Operation(a.dtype, op, (a, b)), terms)  # type: ignore[misc]
        if kept:
            steps.append(replace(step, value=total, factors=None))
        else:
            held[step.name] = total
    return Group(group.outer, kept, tuple(steps))


def without_tiny(group: Group, axis: Axis, places: Mapping[str, e.Place]) -> Group:
    """The group with each step once for each value of a tiny outer axis, where vectors can't go."""
    stored = [part for step in group.steps if isinstance(step, Stored) for part in step.index]
    asked = [*stored, *(part for step in group.steps for part in e.indices(step.value))]
    if not is_sum(group, places=False) or _is_hidden({axis.name}, asked, places):
        return group
    steps: list[Step] = []
    for step, at in itertools.product(group.steps, range(axis.size.constant or 0)):
        moved = {axis.name: Size.of(at)}

        def known(one: e.Expression, at: int = at) -> e.Expression:
            return replace(one, name=f"{one.name}_{at}") if isinstance(one, e.Held) else one

        value = e.rewritten(_at(step.value, moved), known)
        if isinstance(step, Reduced):
            steps.append(replace(step, name=f"{step.name}_{at}", value=value, factors=None))
        elif isinstance(step, Stored):
            index = tuple(substituted(part, moved) for part in step.index)
            steps.append(replace(step, index=index, value=value))
    return replace(
        group, outer=tuple(one for one in group.outer if one != axis), steps=tuple(steps)
    )


def _is_hidden(names: set[str], indices: Iterable[Size], places: Mapping[str, e.Place]) -> bool:
    """Whether an index depends on loops otherwise than by a multiple of their variables."""
    used = {name for index in indices for name in index.dims if name in places}
    return any(names & e.names_in(e.Position("int64", Size.of(name)), places) for name in used)


def _has_lanes(group: Group, outer: tuple[Axis, ...], *, tiny: bool) -> bool:
    """Whether along some outer axis what is stored is contiguous, and what is read nearly so; or
    that axis is tiny, too, as all others are in a product of 4 x 4 matrices and vectors."""
    stores = [step for step in group.steps if isinstance(step, Stored)]
    reads = [index for writes, index in walked(group, {}) if not writes]
    for axis in outer:
        written = [coefficient(e.flat(one.index, one.shape), axis.name) for one in stores]
        if is_tiny(axis):
            if tiny and axis.size != ONE and all(step == ONE for step in written):
                return True
            continue
        steps = [coefficient(index, axis.name).constant for index in reads]
        if all(step == ONE for step in written) and all(
            step is not None and 0 <= step <= LARGEST_STEP for step in steps
        ) and any(steps):  # fmt: skip
            return True
    return False


def is_tiny(axis: Axis) -> bool:
    """Whether there is no room for vectors along it."""
    return axis.size.constant is not None and axis.size.constant < TINY


def _at(value: e.Expression, moved: Mapping[str, Size]) -> e.Expression:
    """With some loop variables known."""

    def change(one: e.Expression) -> e.Expression:
        match one:
            case e.Read():
                return replace(one, index=tuple(substituted(part, moved) for part in one.index))
            case e.Position():
                return replace(one, index=substituted(one.index, moved))
            case e.Within():
                asked = tuple(_condition(part, moved) for part in one.conditions)
                return within(asked, one.inside, one.outside)
            case _:
                return one

    return e.rewritten(value, change)


def _condition(one: e.Inside, moved: Mapping[str, Size]) -> e.Inside:
    low = None if one.low is None else substituted(one.low, moved)
    high = None if one.high is None else substituted(one.high, moved)
    return e.Inside(substituted(one.index, moved), low, high)
