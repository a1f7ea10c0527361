"""The same nodes of several iterations as one node with axes of iterations in front."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from roofsmith.computation import graph as g
from roofsmith.computation.building import Builder, broadcast
from roofsmith.computation.reading import forms
from roofsmith.computation.reading.ragged import (
    NEUTRAL,
    NoRagged,
    Ragged,
    axis_that_differs,
    common,
    masked,
    ragged_view,
    spans_agree,
)
from roofsmith.computation.reading.writes import BoxWrite, Rewriter, box_write, numbers
from roofsmith.computation.sizes import Size

Column = tuple[g.Id, ...]
"""A place for each iteration."""
SCANS = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}
NOTHING = {"add": 0, "mul": 1, "max": -math.inf, "min": math.inf}
MOST_AXES = 4
"""Of iterations: loops one within another. Chosen."""


class CannotLift(Exception):  # noqa: N818 - the loop is left as it is
    """Iterations aren't of one form, or one needs another's results."""


class Broken(CannotLift):
    """Numbers are no progression along an axis of iterations: another loop begins there."""

    def __init__(self, axis: int, period: int) -> None:
        super().__init__(axis, period)
        self.axis, self.period = axis, period


class Lifter:
    """Of one loop with a known shape of iterations."""

    def __init__(self, b: Rewriter, iterations: Sequence[int], closed: Collection[g.Id]) -> None:
        """Nothing is lifted yet.

        Args:
            b: what new nodes are added to; all that comes before the loop is there.
            iterations: how many, for each loop from the outermost on.
            closed: what no iteration may need of another.
        """
        self._b, self._old = b, b.old.graph
        self.iterations = tuple(iterations)
        self._closed = frozenset(closed)
        self._known: dict[Column, tuple[g.Id, bool]] = {}
        self._without: Lifter | None = None
        """Of the loops around the innermost one."""
        self._narrow: dict[g.Id, g.Id] = {}
        """What is the same in all of its iterations, as one that is broadcast."""
        self.ragged: dict[g.Id, Ragged] = {}
        """Of new places: what of them is an iteration's own."""

    def lifted(self, column: Column) -> g.Id:
        """A root, which may be closed; it has the axes of iterations."""
        if len(set(column)) == 1:
            return self._spread(self._b.places[column[0]], False)
        return self._spread(*self._node(column))

    def _column(self, column: Column) -> tuple[g.Id, bool]:
        if len(set(column)) == 1:
            return self._b.places[column[0]], False
        if not self._closed.isdisjoint(column):
            raise CannotLift
        if column not in self._known:
            made = self._outer(column)
            self._known[column] = self._node(column) if made is None else (made, True)
        return self._known[column]

    def _outer(self, column: Column) -> g.Id | None:
        """What the innermost loop doesn't change; None: it does."""
        *outer, length = self.iterations
        whole = np.array(column).reshape(-1, length)
        if not outer or length < 2 or (whole != whole[:, :1]).any():
            return None
        if self._without is None:
            self._without = Lifter(self._b, outer, self._closed)
        made, batched = self._without._column(tuple(map(int, whole[:, 0])))
        if not batched or made in self._without.ragged:
            return None
        rest = forms.extent(self._b, made)[len(outer) :]
        made = forms.expand(self._b, made, len(outer))
        wide = forms.broadcast_to(self._b, made, (*self.iterations, *rest))
        self._narrow[wide] = made
        return wide

    def _scanned(self, column: Column) -> g.Id | None:
        """Each made of the one before, which the innermost loop begins anew; None: they aren't."""
        nodes, length = [self._old[place] for place in column], self.iterations[-1]
        first = nodes[0]
        if not isinstance(first, g.Elementwise) or first.op not in SCANS or length < 2:
            return None
        if any(not isinstance(one, g.Elementwise) or one.op != first.op or one.shape != first.shape
               or one.dtype != first.dtype for one in nodes):  # fmt: skip
            return None
        for side in (0, 1):
            before = [node.operands[side] for node in nodes]
            start = before[0]
            if any(
                one != column[at - 1] if at % length else not forms.is_same(self._old, one, start)
                for at, one in enumerate(before)
            ):
                continue
            terms = self._spread(*self._column(tuple(n.operands[1 - side] for n in nodes)))
            rank = len(self.iterations) + len(first.shape)
            terms = self._aligned(terms, True, len(first.shape))
            if len(self._b.shape(terms)) != rank:
                return None
            made = self._b.scan(SCANS[first.op], terms, len(self.iterations) - 1)
            start = self._b.places[start]
            alone = is_neutral(self._b, first.op, start)
            return made if alone else self._b.apply(first.op, made, start)
        return None

    def _node(self, column: Column) -> tuple[g.Id, bool]:
        if (scan := self._scanned(column)) is not None:
            return scan, True
        nodes = self._alike(column)
        first = nodes[0]
        if any(type(one) is not type(first) or one.dtype != first.dtype
               or len(one.operands) != len(first.operands) for one in nodes):  # fmt: skip
            raise CannotLift
        columns = zip(*(one.operands for one in nodes), strict=True)
        operands = [self._column(one) for one in columns]
        if any(one.shape != first.shape for one in nodes):
            try:
                return self._ragged(first, nodes, operands), True
            except NoRagged:
                raise CannotLift from None
        if any(place in self.ragged for place, _ in operands):
            first, operands = self._summed(first, operands)
            return self._made(first, [first] * len(nodes), operands, True), True
        plain = [_with_operands(one, (0,) * len(operands)) for one in nodes]
        is_same = all(one == plain[0] for one in plain) or len(set(map(repr, plain))) == 1
        if is_same and not any(batched for _, batched in operands):
            return self._b.add(_with_operands(first, [place for place, _ in operands])), False
        return self._made(first, nodes, operands, is_same), True

    def _alike(self, column: Column) -> list[g.Node]:
        """The nodes; where most see a part of one array, one that is what was written there, too.

        `forwarded` has such a node in place of what it was read from.
        """
        nodes = [self._old[place] for place in column]
        seen = Counter(node.arg for node in nodes if isinstance(node, g.View))
        for arg, count in seen.most_common():
            write = box_write(self._old, arg)
            if write is None or count == len(nodes):
                continue
            return [
                self._through(write, place, node) for place, node in zip(column, nodes, strict=True)
            ]
        args = {one.arg for one in nodes if isinstance(one, g.View)}
        if len(args) != 1:
            return nodes
        (arg,) = args
        whole = g.View(self._old[arg].shape, self._old[arg].dtype, arg, _unit(self._old[arg]))
        return [whole if place == arg else one for place, one in zip(column, nodes, strict=True)]

    def _through(self, write: BoxWrite, place: g.Id, node: g.Node) -> g.Node:
        """The same elements as a view of what was written."""
        if isinstance(node, g.View) and node.arg == write.part:
            index = node.index
        elif place == write.part:
            index = _unit(node)
        else:
            return node
        moved = tuple(
            replace(part, offset=part.offset + low)
            for part, low in zip(index, write.low, strict=True)
        )
        return g.View(node.shape, node.dtype, write.place, moved)

    def _ragged(
        self, first: g.Node, nodes: Sequence[Any], operands: Sequence[tuple[g.Id, bool]]
    ) -> g.Id:
        b, count, axis = self._b, len(self.iterations), axis_that_differs(nodes)
        parts = [self.ragged.get(place) for place, _ in operands]
        own: Ragged | None = None
        match first:
            case g.View():
                if len({tuple(part.strides for part in one.index) for one in nodes}) > 1:
                    raise CannotLift
                seen = ragged_view(nodes, axis, parts[0], self.affine)
                place, batched = operands[0]
                span = seen.span
                if span < 0 and parts[0] is not None:
                    span = forms.extent(b, place)[parts[0].axis + count]
                index: list[tuple[int, Sequence[int]]] = []
                for part, offsets in zip(first.index, seen.parts, strict=True):
                    base, steps = self.affine(offsets)
                    index.append((base, (*steps, *numbers(part.strides))))
                shape = [*self.iterations, *numbers(first.shape)]
                shape[count + axis] = span
                if batched:
                    units = [(0, tuple(int(at == one) for at in range(len(shape))))
                             for one in range(count)]  # fmt: skip
                    index = [*units, *index]
                made, own = forms.view(b, place, shape, index), seen.ragged
            case g.Elementwise():
                ranks = [len(b.shape(place)) - count * batched for place, batched in operands]
                own = common(parts, ranks, len(first.shape))
                plain = {_with_operands(replace(one, shape=()), (0,) * len(operands))
                         for one in nodes}  # fmt: skip
                if own is None or own.axis != axis or len(plain) > 1:
                    raise CannotLift
                args = [self._aligned(*one, len(first.shape)) for one in operands]
                sizes = [forms.extent(b, place)[axis - len(first.shape)] for place in args
                         if len(b.shape(place)) >= len(first.shape) - axis]  # fmt: skip
                if not spans_agree(sizes):
                    raise CannotLift
                shape = [*self.iterations, *numbers(first.shape)]
                shape[count + axis] = max(sizes)
                made = b.add(replace(first, shape=tuple(map(Size.of, shape)), args=tuple(args)))
            case g.Cast() if parts[0] is not None:
                made, own = b.cast(operands[0][0], first.dtype), parts[0]
            case g.Reduce() if parts[0] is not None and parts[0].axis not in first.axes:
                axes = tuple(one + count for one in first.axes)
                made = b.reduce(first.op, operands[0][0], *axes)
                gone = sum(1 for one in first.axes if one < parts[0].axis)
                own = replace(parts[0], axis=parts[0].axis - gone)
            case g.Contract():
                letter = first.result_axes[axis]
                made = self._contract(first, operands)
                sides = zip(parts, (first.left_axes, first.right_axes), strict=True)
                kept = [(part, letters) for part, letters in sides if part is not None]
                if len(kept) != 1 or kept[0][1][kept[0][0].axis] != letter:
                    raise CannotLift
                own = replace(kept[0][0], axis=axis)
            case _:
                raise CannotLift
        if own is None or own.axis != axis:
            raise CannotLift
        self.ragged[made] = own
        return made

    def _summed(
        self, first: g.Node, operands: Sequence[tuple[g.Id, bool]]
    ) -> tuple[g.Node, list[tuple[g.Id, bool]]]:
        """A reduction along what is ragged, of arrays that are neutral elsewhere."""
        b, given = self._b, list(operands)
        parts = [self.ragged.get(place) for place, _ in given]
        match first:
            case g.Reduce() if parts[0] is not None and parts[0].axis in first.axes:
                is_float = first.dtype in ("float32", "float64", "float16")
                if first.op not in NEUTRAL or not (is_float or first.op in ("sum", "prod")):
                    raise CannotLift
                place = masked(b, self.iterations, given[0][0], parts[0], NEUTRAL[first.op])
                return first, [(place, True)]
            case g.Contract():
                letters = (first.left_axes, first.right_axes)
                seen = {one[part.axis] for part, one in zip(parts, letters, strict=True)
                        if part is not None}  # fmt: skip
                own = {(part.low, part.high) for part in parts if part is not None}
                if (
                    None in parts
                    or len(seen) != 1
                    or len(own) != 1
                    or seen & set(first.result_axes)
                ):
                    raise CannotLift
                side = min((0, 1), key=lambda at: len(letters[at]))
                place, part = given[side][0], parts[side]
                assert part is not None
                given[side] = masked(b, self.iterations, place, part, 0), True
                return first, given
            case _:
                raise CannotLift

    def _made(
        self, first: g.Node, nodes: Sequence[Any], operands: Sequence[tuple[g.Id, bool]],
        is_same: bool,
    ) -> g.Id:  # fmt: skip
        b, count = self._b, len(self.iterations)
        shape = (*map(Size.of, self.iterations), *first.shape)
        if isinstance(first, (g.Constant, g.Dimension)):
            return self._progression(first, nodes)
        if isinstance(first, g.View):
            return self._view(first, nodes, *operands[0])
        if not is_same:
            raise CannotLift
        match first:
            case g.Elementwise():
                args = [self._aligned(*one, len(first.shape)) for one in operands]
                narrow = [self._narrow.get(one, one) for one in args]
                fits = broadcast(*(b.shape(one) for one in narrow)) == shape
                return b.add(replace(first, shape=shape, args=tuple(narrow if fits else args)))
            case g.Cast() | g.Reshape():
                return b.add(replace(first, shape=shape, arg=operands[0][0]))
            case g.Reduce():
                axes = tuple(axis + count for axis in first.axes)
                return b.add(replace(first, shape=shape, arg=operands[0][0], axes=axes))
            case g.Scan() | g.Sort():
                axis = first.axis + count
                return b.add(replace(first, shape=shape, arg=operands[0][0], axis=axis))
            case g.Pad():
                low = (*(Size.of(0) for _ in range(count)), *first.low)
                return b.add(replace(first, shape=shape, arg=operands[0][0], low=low))
            case g.Concat():
                args = [self._spread(*one) for one in operands]
                axis = first.axis + count
                return b.add(replace(first, shape=shape, args=tuple(args), axis=axis))
            case g.Contract():
                return self._contract(first, operands)
            case g.Gather():
                (arg, is_batched), *rest = operands
                indices = [self._spread(*one) for one in rest]
                own = self._own_places(numbers(shape)) if is_batched else []
                return b.add(replace(first, shape=shape, arg=arg, indices=(*own, *indices)))
            case g.Scatter():
                arg, *indices, updates = (self._spread(*one) for one in operands)
                own = self._own_places(numbers(b.shape(updates)))
                return b.add(replace(first, shape=shape, arg=arg, indices=(*own, *indices),
                                     updates=updates))  # fmt: skip
            case _:
                raise CannotLift

    def _spread(self, place: g.Id, batched: bool) -> g.Id:
        if batched:
            return place
        mine = forms.extent(self._b, place)
        return forms.broadcast_to(self._b, place, (*self.iterations, *mine))

    def _aligned(self, place: g.Id, batched: bool, rank: int) -> g.Id:
        """With axes of size 1 behind those of iterations, so that it is broadcast to a rank."""
        count = len(self.iterations)
        if not batched:
            return place
        for _ in range(rank - (len(self._b.shape(place)) - count)):
            place = forms.expand(self._b, place, count)
        return place

    def _own_places(self, shape: Sequence[int]) -> list[g.Id]:
        b = self._b
        return [forms.broadcast_to(b, forms.places(b, shape, axis), shape)
                for axis in range(len(self.iterations))]  # fmt: skip

    def _contract(self, first: g.Contract, operands: Sequence[tuple[g.Id, bool]]) -> g.Id:
        used = first.left_axes + first.right_axes
        own = "".join([one for one in forms.LETTERS if one not in used][: len(self.iterations)])
        (left, is_left), (right, is_right) = operands
        return self._b.contract(
            f"{own * is_left}{first.left_axes},{own * is_right}{first.right_axes}"
            f"->{own}{first.result_axes}", left, right,
        )  # fmt: skip

    def _view(self, first: g.View, nodes: Sequence[g.View], arg: g.Id, batched: bool) -> g.Id:
        strides = {tuple(part.strides for part in one.index) for one in nodes}
        if len(strides) > 1:
            raise CannotLift
        rank = len(self.iterations) + len(first.shape)
        index: list[tuple[int, Sequence[int]]] = []
        for at, part in enumerate(first.index):
            base, steps = self.affine([one.index[at].offset.at({}) for one in nodes])
            index.append((base, (*steps, *numbers(part.strides))))
        if batched:
            own = [(0, tuple(int(at == axis) for at in range(rank)))
                   for axis in range(len(self.iterations))]  # fmt: skip
            index = [*own, *index]
        return forms.view(self._b, arg, (*self.iterations, *numbers(first.shape)), index)

    def _progression(self, first: g.Node, nodes: Sequence[Any]) -> g.Id:
        """Whole numbers that iterations decide."""
        b, values = self._b, []
        for one in nodes:
            value = one.size.at({}) if isinstance(one, g.Dimension) else one.value
            if type(value) is bool or not float(value).is_integer():
                raise CannotLift
            values.append(int(value))
        base, steps = self.affine(values)
        total = b.dimension(base)
        for axis, step in enumerate(steps):
            if step:
                own = forms.places(b, self.iterations, axis)
                total = b.apply("add", b.apply("mul", own, b.dimension(step)), total)
        return b.cast(forms.broadcast_to(b, total, self.iterations), first.dtype)

    def affine(self, values: Sequence[int]) -> tuple[int, tuple[int, ...]]:
        """The first number, and what each loop adds.

        Raises:
            Broken: they are no such thing.
        """
        found = np.array(values).reshape(self.iterations)
        base = int(found.flat[0])
        steps = []
        for axis in range(found.ndim):
            line = found[tuple(slice(None) if at == axis else 0 for at in range(found.ndim))]
            step = int(line[1] - line[0]) if len(line) > 1 else 0
            ruled = base + step * np.arange(len(line))
            if (line != ruled).any():
                raise Broken(axis, int(np.argmax(line != ruled)))
            steps.append(step)
        whole = base + sum(
            step * places for step, places in zip(steps, np.indices(self.iterations), strict=True)
        )
        if (found != whole).any():
            raise CannotLift
        return base, tuple(steps)


def is_neutral(b: Builder, op: str, place: g.Id) -> bool:
    node = b[place]
    while isinstance(node, (g.View, g.Cast)):
        node = b[node.arg]
    return isinstance(node, g.Constant) and node.value == NOTHING[op]


def _unit(node: g.Node) -> tuple[g.Affine, ...]:
    """Of a view that shows all of it."""
    rank = len(node.shape)
    return tuple(forms.affine(0, [int(at == axis) for at in range(rank)]) for axis in range(rank))


def _with_operands(node: g.Node, operands: Sequence[g.Id]) -> g.Node:
    """The same node with others, in the order of `Node.operands`."""
    left = list(operands)
    changed: dict[str, Any] = {}
    for name in g.OPERANDS:
        if (value := getattr(node, name, None)) is not None:
            if isinstance(value, tuple):
                changed[name] = tuple(left[: len(value)])
                del left[: len(value)]
            else:
                changed[name] = left.pop(0)
    return replace(node, **changed)


def attempted(
    b: Rewriter, count: int, closed: Collection[g.Id], attempt: Callable[[Lifter], g.Id]
) -> g.Id | None:
    """What is made of so many iterations with the shape of loops that fits; None: none does."""
    iterations = [count]
    for _ in range(MOST_AXES):
        try:
            return attempt(Lifter(b, iterations, closed))
        except Broken as broken:
            size, period = iterations[broken.axis], broken.period
            if size % period or period < 2:
                return None
            iterations[broken.axis : broken.axis + 1] = [size // period, period]
        except (CannotLift, RecursionError):
            return None
    return None
