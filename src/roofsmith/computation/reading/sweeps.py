"""A loop of which every iteration needs the one before, as one iteration that is repeated.

A reading has it unrolled: the same operations over and over, each on what the iteration before
made of some arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from roofsmith.computation import graph as g
from roofsmith.computation.reading import forms
from roofsmith.computation.reading.forms import Boxed
from roofsmith.computation.reading.merging import OneReading
from roofsmith.computation.reading.writes import Rewriter, numbers, pruned
from roofsmith.computation.sizes import Size

LEAST = 4
"""Operations of which a loop consists, all iterations together. Chosen."""
MOST_TRIED = 8
"""Ways to cut operations into iterations, those that cover most first. Chosen."""


MOST_LAG = 2
"""Iterations that one reaches back: a wave's equation has two. Chosen."""

Carry = dict[tuple[int, int], g.Id]
"""By place in an iteration and how many iterations ago: what there is of it before the loop."""


@dataclass(frozen=True)
class Sweep:
    """Operations `first` to `first + period * count`, which are iterations of a loop."""

    first: int
    period: int
    count: int

    @property
    def end(self) -> int:
        return self.first + self.period * self.count

    @property
    def last(self) -> int:
        return self.end - self.period


def swept(reading: OneReading, least: int = 2, *, moves: bool = False) -> OneReading:
    """The same results, with loops that nobody can turn into axes repeated.

    Args:
        reading: with all iterations.
        least: of so many iterations; fewer are left as they are.
        moves: whether each may look at other elements, further on by as many.
    """
    reading = pruned(reading)  # the last iteration alone may be looked at
    loops = len(reading.graph.repeated())
    while (shorter := _once(reading, least, loops, moves)) is not None:
        reading, loops = shorter, loops + 1
    return reading


def _once(reading: OneReading, least: int, loops: int, moves: bool) -> OneReading | None:
    for sweep in _sweeps(reading, moves):
        if sweep.count < least:
            continue
        carried = _carried(reading.graph, sweep)
        steps = None if carried is None else _steps(reading.graph, sweep)
        if carried is not None and steps is not None:
            return _repeated(reading, sweep, carried, steps, loops)
    return None


def _numbers(node: g.Node) -> tuple[int, ...]:
    match node:
        case g.View():
            return tuple(part.offset.at({}) for part in node.index)
        case Boxed():
            return numbers(node.low)
        case g.Dimension():
            return (node.size.at({}),)
        case g.Constant(dtype="int64" | "int32"):
            return (int(node.value),)
        case _:
            return ()


def _without_numbers(node: g.Node) -> g.Node:
    zero = Size()
    match node:
        case g.View():
            return replace(node, index=tuple(replace(one, offset=zero) for one in node.index))
        case Boxed():
            return replace(node, low=())
        case g.Dimension():
            return replace(node, size=zero)
        case g.Constant(dtype="int64" | "int32"):
            return replace(node, value=0)
        case _:
            return node


def _steps(graph: g.Graph, sweep: Sweep) -> dict[int, list[tuple[int, int]]] | None:
    """By place in an iteration, the first number and what each iteration adds; None: it differs."""
    found: dict[int, list[tuple[int, int]]] = {}
    for at in range(sweep.period):
        rows = [_numbers(graph[sweep.first + at + sweep.period * turn])
                for turn in range(sweep.count)]  # fmt: skip
        ruled = [(column[0], column[1] - column[0]) for column in zip(*rows, strict=True)]
        if any(row != tuple(first + step * turn for first, step in ruled)
               for turn, row in enumerate(rows)):  # fmt: skip
            return None
        if any(step for _, step in ruled):
            found[at] = ruled
    return found


def _moving(b: Rewriter, node: g.Node, ruled: list[tuple[int, int]], turn: g.Id) -> g.Id:
    at = [b.apply("add", b.apply("mul", turn, b.dimension(step)), b.dimension(first))
          if step else b.dimension(first) for first, step in ruled]  # fmt: skip
    if isinstance(node, g.Dimension | g.Constant):
        return b.cast(at[0], node.dtype)
    if isinstance(node, Boxed):
        shape = forms.extent(b, node.updates)
        strides = [[int(axis == one) for one in range(len(shape))] for axis in range(len(shape))]
    else:
        assert isinstance(node, g.View)
        shape = numbers(node.shape)
        strides = [list(numbers(part.strides)) for part in node.index]
    indices = []
    for first, row in zip(at, strides, strict=True):
        for axis, step in enumerate(row):
            if step and shape[axis] > 1:
                own = forms.places(b, shape, axis)
                own = own if step == 1 else b.apply("mul", own, b.dimension(step))
                first = b.apply("add", first, own)
        indices.append(forms.broadcast_to(b, first, shape))
    if isinstance(node, Boxed):
        return b.scatter("set", node.arg, indices, node.updates)
    return b.gather(node.operands[0], *indices)


def _sweeps(reading: OneReading, moves: bool) -> list[Sweep]:
    """Where operations repeat themselves, the longest first."""
    known: dict[object, int] = {}
    kinds = []
    for place, node in enumerate(reading.graph.nodes):
        is_fixed = isinstance(node, g.CarriedValue | g.Repeated | g.Input)
        plain = (
            place
            if is_fixed
            else repr((_without_numbers(node) if moves else node).moved(_Nowhere()))
        )
        kinds.append(known.setdefault((reading.lines[place], plain), len(known)))
    codes = np.array(kinds)
    found = []
    for period in range(1, len(codes) // 2 + 1):
        same = np.flatnonzero(codes[:-period] != codes[period:])
        bounds = np.concatenate(([-1], same, [len(codes) - period]))
        at = int(np.argmax(np.diff(bounds)))
        first, length = int(bounds[at]) + 1, int(bounds[at + 1] - bounds[at]) - 1
        if length < period or length + period < LEAST:
            continue
        count, more = divmod(length + period, period)
        found += [Sweep(first + shift, period, count) for shift in dict.fromkeys((0, more))]
    loops = _spans(reading.graph)
    found = [one for one in found if not any(a < one.first < b for a, b in loops)]
    found.sort(key=lambda one: (-one.period * one.count, one.period))
    return found[:MOST_TRIED]


def _spans(graph: g.Graph) -> list[tuple[int, int]]:
    """Where loops begin and end: one within another stays unrolled, as graphs have no such."""
    found: dict[int, list[int]] = {}
    for place, node in enumerate(graph.nodes):
        if isinstance(node, g.CarriedValue | g.Repeated):
            found.setdefault(node.loop, []).append(place)
    return [(places[0], places[-1]) for places in found.values()]


class _Nowhere(dict[g.Id, g.Id]):
    """Any operand, for what is asked of an operation alone."""

    def __getitem__(self, _: g.Id) -> g.Id:
        return 0


def _carried(graph: g.Graph, sweep: Sweep) -> Carry | None:
    """What later iterations need, and what the first one has in its place.

    None: these are no iterations of one loop.
    """
    found: Carry = {}
    first, period = sweep.first, sweep.period
    for at in range(period):
        places = [first + at + period * turn for turn in range(sweep.count)]
        for column in zip(*(graph[place].operands for place in places), strict=True):
            if column[0] < first and len(set(column)) == 1:
                continue
            steps = [one - first - period * turn for turn, one in enumerate(column)]
            lag, place = _behind(steps[-1], period)
            if lag > MOST_LAG or lag >= sweep.count or len(set(steps[lag:])) > 1:
                return None
            if any(one >= first for one in column[:lag]):
                return None
            for turn, begin in enumerate(column[:lag]):  # the first one reaches back most
                if found.setdefault((place, lag - turn), begin) != begin:
                    return None
    for (place, _), begin in found.items():
        old, new = graph[begin], graph[first + place]
        if old.shape != new.shape or old.dtype != new.dtype:
            return None
    behind = {_behind(one - sweep.end, period) for one in _needed_behind(graph, sweep)}
    return found if found and {(place, lag) for lag, place in behind} <= found.keys() else None


def _behind(step: int, period: int) -> tuple[int, int]:
    """How many iterations ago, and its place in an iteration."""
    return -(step // period), step % period


def _needed_behind(graph: g.Graph, sweep: Sweep) -> Iterator[g.Id]:
    """What is read of iterations after the last one."""
    later = [one for node in graph.nodes[sweep.end :] for one in node.operands]
    yield from (one for one in (*later, *graph.outputs.values()) if sweep.first <= one < sweep.end)


def _repeated(
    reading: OneReading, sweep: Sweep, carried: Carry, steps: dict[int, list[tuple[int, int]]],
    loop: int,
) -> OneReading:  # fmt: skip
    """With one iteration, the last, between what it begins and ends with."""
    graph, b = reading.graph, Rewriter(reading)
    begins: dict[tuple[int, int], g.Id] = {}
    for place, node in enumerate(graph.nodes):
        b.line = reading.lines[place]
        if sweep.first <= place < sweep.last:
            continue
        if place == sweep.last:
            for (at, lag), begin in carried.items():
                old, name = graph[begin], at + sweep.period * (lag - 1)
                start = g.CarriedValue(old.shape, old.dtype, b.places[begin], loop, name)
                begins[at, lag] = b.add(start)
                b.places[sweep.last + at - sweep.period * lag] = begins[at, lag]
            if steps:
                name = sweep.period * (MOST_LAG + 1)
                turn = b.add(g.CarriedValue((), "int64", b.dimension(0), loop, name))
        moved, at = node.moved(b.places), place - sweep.last
        is_moving = place < sweep.end and at in steps
        b.places[place] = _moving(b, moved, steps[at], turn) if is_moving else b.add(moved)
        if place == sweep.end - 1:
            ends = {(at, lag): sweep.last + at - sweep.period * (lag - 1) for at, lag in carried}
            args = tuple(one for key, end in ends.items() for one in (begins[key], b.places[end]))
            if steps:
                args = (*args, turn, b.apply("add", turn, b.dimension(1)))
            for which, end in enumerate(ends.values()):  # nobody asks for the number behind it
                old = b[b.places[end]]
                made = g.Repeated(old.shape, old.dtype, args, which, loop, Size.of(sweep.count))
                b.places[end] = b.add(made)
    return b.reading()
