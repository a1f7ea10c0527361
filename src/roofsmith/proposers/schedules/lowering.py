"""Nodes of a graph as expressions of one element: views, pads and reshapes become indices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from roofsmith.computation import graph as g
from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Shape, Size, elements
from roofsmith.proposers.schedules import expressions as e

Made = Callable[[g.Id, e.Index], e.Expression | None]
"""An element of a node that isn't computed here: read from a buffer, or held; None: compute it."""


class NoSchedule(Exception):  # noqa: N818 - reads as a sentence
    """No kernel can be written of a graph: why, in words."""


@dataclass
class Lowering:
    """Writes elements of nodes as expressions, each once."""

    graph: g.Graph
    places: e.Places
    made: Made
    _known: dict[tuple[g.Id, e.Index], e.Expression] = field(default_factory=dict)

    def at(self, place: g.Id, index: e.Index) -> e.Expression:
        """A node's element at an index."""
        key = (place, index)
        if key not in self._known:
            found = self.made(place, index)
            self._known[key] = self._computed(place, index) if found is None else found
        return self._known[key]

    def _computed(self, place: g.Id, index: e.Index) -> e.Expression:
        node = self.graph[place]
        match node:
            case g.Constant():
                return e.Number(node.dtype, node.value)
            case g.Dimension():
                return e.Position(node.dtype, node.size)
            case g.Arange():
                return e.Position(node.dtype, index[0])
            case g.Elementwise():
                args = tuple(self.at(arg, self._broadcast(arg, index, node)) for arg in node.args)
                return applied(node, args)
            case g.Cast():
                return converted(node.dtype, self.at(node.arg, index))
            case g.View():
                return self.at(node.arg, tuple(_affine(part, index) for part in node.index))
            case g.Reshape():
                return self._reshaped(node, index)
            case g.Pad():
                return self._padded(node, index)
            case g.Concat():
                return self._joined(node, index)
            case g.Gather():
                chosen = tuple(self._chosen(one, index, node.shape) for one in node.indices)
                return self.at(node.arg, chosen)
            case g.Reduce():  # along no axis
                return self.at(node.arg, index)
            case g.Contract():  # without a sum
                return self.product(node, dict(zip(node.result_axes, index, strict=True)))
            case _:
                raise NoSchedule(f"nothing is known of {type(node).__name__.lower()} here")

    def product(self, node: g.Contract, letters: dict[str, Size]) -> e.Operation:
        """The product of two elements, for an index of each letter."""
        left = self.at(node.left, tuple(letters[letter] for letter in node.left_axes))
        right = self.at(node.right, tuple(letters[letter] for letter in node.right_axes))
        return e.Operation(node.dtype, "mul", (left, right))

    def _broadcast(self, arg: g.Id, index: e.Index, node: g.Node) -> e.Index:
        shape = self.graph[arg].shape
        return broadcast_index(shape, index, node.shape)

    def _reshaped(self, node: g.Reshape, index: e.Index) -> e.Expression:
        shape = self.graph[node.arg].shape
        found = self.at(node.arg, unravelled(index, node.shape, shape, self.places))
        if isinstance(found, e.Read) and self.made(node.arg, found.index) == found:
            return e.Read(found.dtype, found.buffer, index, node.shape)
        return found

    def _padded(self, node: g.Pad, index: e.Index) -> e.Expression:
        sizes = self.graph[node.arg].shape
        inner, conditions = [], []
        for at, low, size, whole in zip(index, node.low, sizes, node.shape, strict=True):
            inner.append(at - low)
            if low != ZERO and not _is_never_negative(at - low):
                conditions.append(e.Inside(at, low, None))
            if low + size != whole and not self._stays_below(at, low + size):
                conditions.append(e.Inside(at, None, low + size))
        value = self.at(node.arg, tuple(inner))
        if not conditions:
            return value
        outside = e.Number(node.dtype, node.value)
        return within(tuple(conditions), value, outside)

    def _stays_below(self, index: Size, end: Size) -> bool:
        below = self.places.below(index)
        return below is not None and _is_never_negative(end - below)

    def _joined(self, node: g.Concat, index: e.Index) -> e.Expression:
        starts = [ZERO]
        for arg in node.args:
            starts.append(starts[-1] + self.graph[arg].shape[node.axis])
        value: e.Expression | None = None
        for arg, start, end in reversed(list(zip(node.args, starts, starts[1:], strict=False))):
            if start == end:
                continue
            inner = list(index)
            inner[node.axis] = index[node.axis] - start
            piece = self.at(arg, tuple(inner))
            inside = e.Inside(index[node.axis], None, end)
            value = piece if value is None else within((inside,), piece, value)
        if value is None:
            raise NoSchedule("an array without elements")
        return value

    def _chosen(self, place: g.Id, index: e.Index, shape: Shape) -> Size:
        value = self.at(place, broadcast_index(self.graph[place].shape, index, shape))
        return chosen(value, self.places)


def applied(node: g.Elementwise, args: tuple[e.Expression, ...]) -> e.Expression:
    """An operation; a choice by indices alone, of what is within bounds, is one of bounds, too."""
    if node.op == "where" and any(
        isinstance(part, e.Within) for arg in args[1:] for part in e.walk(arg)
    ):
        conditions = _conditions(args[0])
        if conditions is not None:
            return within(conditions, args[1], args[2])
    return e.Operation(node.dtype, node.op, args)


def converted(dtype: str, value: e.Expression) -> e.Expression:
    """In another dtype. One operation on float32 in float64, rounded to float32, is the same as
    in float32: Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30(3), 1995."""
    if isinstance(value, e.Operation) and value.op in _INNOCUOUS and dtype == "float32":
        args = [_narrow(arg) for arg in value.args]
        if value.dtype == "float64" and None not in args:
            return e.Operation(dtype, value.op, tuple(arg for arg in args if arg is not None))
    return e.Converted(dtype, value)


_INNOCUOUS = frozenset(("add", "sub", "mul", "div", "sqrt"))


def _narrow(value: e.Expression) -> e.Expression | None:
    """The float32 that a float64 is made of."""
    if isinstance(value, e.Converted) and value.arg.dtype == "float32":
        return value.arg
    return None


def _conditions(value: e.Expression) -> tuple[e.Inside, ...] | None:
    """A truth about indices as bounds that all have to hold."""
    if not isinstance(value, e.Operation):
        return None
    if value.op == "and":
        left, right = map(_conditions, value.args)
        return None if left is None or right is None else (*left, *right)
    if value.op not in _TURNED:
        return None
    found = [_as_index(arg) for arg in value.args]
    if found[0] is None or found[1] is None:
        return None
    op, (one, other) = value.op, (found[0], found[1])
    if one.constant is not None:
        op, one, other = _TURNED[op], other, one
    match op:
        case "ge":
            return (e.Inside(one, other, None),)
        case "gt":
            return (e.Inside(one, other + 1, None),)
        case "lt":
            return (e.Inside(one, None, other),)
        case _:
            return (e.Inside(one, None, other + 1),)


_TURNED = {"ge": "le", "le": "ge", "gt": "lt", "lt": "gt"}


def _as_index(value: e.Expression) -> Size | None:
    match value:
        case e.Position() if value.dtype in WHOLE:
            return value.index
        case e.Number() if value.dtype in WHOLE:
            return Size.of(int(value.value))
        case e.Converted() if value.dtype in WHOLE:
            return _as_index(value.arg)
        case _:
            return None


def _holds(one: e.Inside) -> bool | None:
    """Whether bounds hold everywhere; None: that depends."""
    low = 0 if one.low is None else (one.index - one.low).constant
    high = 1 if one.high is None else (one.high - one.index).constant
    if (low is not None and low < 0) or (high is not None and high <= 0):
        return False
    return None if low is None or high is None else True


def within(
    conditions: tuple[e.Inside, ...], inside: e.Expression, outside: e.Expression
) -> e.Expression:
    """A choice by bounds, in which none is asked for twice, nor any that is known."""
    holds = [_holds(one) for one in conditions]
    if False in holds:
        return outside
    conditions = tuple(one for one, always in zip(conditions, holds, strict=True) if not always)
    if not conditions:
        return inside
    known = _canonical(conditions)

    def settled(one: e.Expression) -> e.Expression:
        held = isinstance(one, e.Within) and _canonical(one.conditions) <= known
        return one.inside if held and isinstance(one, e.Within) else one

    inside = e.rewritten(inside, settled)
    if isinstance(outside, e.Within) and _canonical(outside.conditions) == known:
        outside = outside.outside
    if inside == outside:
        return inside
    return e.Within(inside.dtype, conditions, inside, outside)


def _canonical(conditions: tuple[e.Inside, ...]) -> set[Size]:
    """Sizes that are positive where all conditions hold, and nowhere else."""
    lows = {one.index - one.low + 1 for one in conditions if one.low is not None}
    return lows | {one.high - one.index for one in conditions if one.high is not None}


def _is_never_negative(size: Size) -> bool:
    """Whether that is seen: dims and loop variables are never negative."""
    return all(count > 0 for _, count in size.terms)


def chosen(value: e.Expression, places: e.Places) -> Size:
    match value:
        case e.Position():
            return value.index
        case e.Number():
            return Size.of(int(value.value))
        case e.Converted() if isinstance(value.arg, e.Position) and value.dtype in WHOLE:
            return value.arg.index
        case _:
            return places.size(e.Chosen(value))


WHOLE = frozenset(("int32", "int64", "uint32", "uint64"))
"""Integer types that hold every index."""


def broadcast_index(shape: Shape, index: e.Index, whole: Shape) -> e.Index:
    """The index of an operand's element, for that of the result."""
    skipped = len(whole) - len(shape)
    return tuple(
        ZERO if size == ONE and whole[skipped + axis] != ONE else index[skipped + axis]
        for axis, size in enumerate(shape)
    )


def _affine(part: g.Affine, index: e.Index) -> Size:
    total = part.offset
    for step, at in zip(part.strides, index, strict=True):
        total = total + step * at
    return total


def unravelled(index: e.Index, shape: Shape, wanted: Shape, places: e.Places) -> e.Index:
    """The index in an array of shape `wanted` of the element at `index` in one of `shape`.

    Axes are matched from the last on: where products of sizes agree nothing is divided.
    """
    result: list[Size] = []
    have, want = list(zip(index, shape, strict=True)), list(wanted)
    while want:
        mine, theirs = _block(have, want)
        result[:0] = _unravelled_block(mine, theirs, places)
    return tuple(result)


def _block(
    have: list[tuple[Size, Size]], want: list[Size]
) -> tuple[list[tuple[Size, Size]], list[Size]]:
    """Takes the shortest ends of both that have as many elements."""
    for total in range(1, len(have) + len(want) + 1):
        for count in range(max(0, total - len(want)), min(total, len(have)) + 1):
            mine, theirs = have[len(have) - count :], want[len(want) - (total - count) :]
            if theirs and elements(tuple(size for _, size in mine)) == elements(tuple(theirs)):
                del have[len(have) - count :], want[len(want) - len(theirs) :]
                return mine, theirs
    mine, theirs = list(have), list(want)
    have.clear()
    want.clear()
    return mine, theirs


def _unravelled_block(
    mine: list[tuple[Size, Size]], theirs: list[Size], places: e.Places
) -> list[Size]:
    whole = e.flat(tuple(at for at, _ in mine), tuple(size for _, size in mine))
    if len(theirs) == 1:
        return [whole if theirs[0] != ONE else ZERO]
    found: list[Size] = []
    for axis in range(len(theirs)):
        inner = elements(tuple(theirs[axis + 1 :]))
        at = _divided(mine, inner, places)
        if axis and theirs[axis] != ONE:
            at = places.remainder(at, theirs[axis])
        found.append(at if theirs[axis] != ONE else ZERO)
    return found


def _divided(mine: list[tuple[Size, Size]], by: Size, places: e.Places) -> Size:
    """A row-major index divided; common factors with the last axes are left out."""
    kept = list(mine)
    while kept and by != ONE:
        rest = e.exactly(by, kept[-1][1])
        if rest is None:
            break
        by = rest
        kept.pop()
    whole = e.flat(tuple(at for at, _ in kept), tuple(size for _, size in kept))
    return whole if by == ONE or whole == ZERO else places.divided(whole, by)
