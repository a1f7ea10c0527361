"""What libraries have one name for, in several nodes; of shapes in numbers, as they are traced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from roofsmith.computation.building import Builder
from roofsmith.computation.graph import Affine, Cast, Constant, Elementwise, Graph, Id, Node, View
from roofsmith.computation.sizes import Shape, Size

Sizes = tuple[int, ...]
HALVES = frozenset(("float16", "bfloat16"))
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Boxed(Node):
    """`arg` in which a box that begins at `low` is replaced; in readings, until loops are found."""

    arg: Id
    updates: Id
    low: Shape


def extent(b: Builder, x: Id) -> Sizes:
    """A node's shape in numbers."""
    return tuple(size.at({}) for size in b.shape(x))


def affine(offset: int, strides: Sequence[int]) -> Affine:
    return Affine(Size.of(offset), tuple(map(Size.of, strides)))


def view(b: Builder, x: Id, shape: Sequence[int], index: Sequence[tuple[int, Sequence[int]]]) -> Id:
    """Elements by offset and strides for each axis of `x`; `x` itself where nothing is moved."""
    unit = [(0, _unit(len(shape), axis)) for axis in range(len(shape))]
    made = [(offset, tuple(strides)) for offset, strides in index]
    if tuple(shape) == extent(b, x) and made == unit:
        return x
    return b.view(x, tuple(map(Size.of, shape)), [affine(*one) for one in made])


def _unit(rank: int, axis: int) -> tuple[int, ...]:
    return tuple(int(at == axis) for at in range(rank))


def broadcast_to(b: Builder, x: Id, shape: Sequence[int]) -> Id:
    mine, rank = extent(b, x), len(shape)
    lead = rank - len(mine)
    index = [
        (0, _unit(rank, lead + axis) if size == shape[lead + axis] else (0,) * rank)
        for axis, size in enumerate(mine)
    ]
    return view(b, x, shape, index)


def full(b: Builder, shape: Sequence[int], value: Id) -> Id:
    return broadcast_to(b, value, shape)


def permute(b: Builder, x: Id, axes: Sequence[int]) -> Id:
    """Axes in another order."""
    if list(axes) == list(range(len(axes))):
        return x
    return b.transpose(x, *axes)


def sliced(b: Builder, x: Id, parts: Sequence[tuple[int, int, int]]) -> Id:
    """Start, step and count for each axis."""
    rank = len(parts)
    index = [
        (start, tuple(step * one for one in _unit(rank, axis)))
        for axis, (start, step, _) in enumerate(parts)
    ]
    return view(b, x, [count for _, _, count in parts], index)


def part_of(b: Builder, x: Id, axis: int, start: int, count: int, step: int = 1) -> Id:
    parts = [(0, 1, size) for size in extent(b, x)]
    parts[axis] = (start, step, count)
    return sliced(b, x, parts)


def select(b: Builder, x: Id, axis: int, place: int) -> Id:
    """One place of an axis, which is gone then."""
    shape = extent(b, x)
    kept = [at for at in range(len(shape)) if at != axis]
    index = [
        (place, (0,) * len(kept)) if at == axis else (0, _unit(len(kept), kept.index(at)))
        for at in range(len(shape))
    ]
    return view(b, x, [shape[at] for at in kept], index)


def flip(b: Builder, x: Id, axes: Sequence[int]) -> Id:
    shape = extent(b, x)
    return sliced(
        b, x, [(n - 1, -1, n) if axis in axes else (0, 1, n) for axis, n in enumerate(shape)]
    )


def expand(b: Builder, x: Id, axis: int) -> Id:
    """An axis of size 1 is put in."""
    return b.expand_dims(x, axis % (len(b.shape(x)) + 1))


def squeeze(b: Builder, x: Id, axes: Sequence[int]) -> Id:
    """Axes of size 1 are taken out."""
    for axis in sorted(axes, reverse=True):
        x = select(b, x, axis, 0)
    return x


def reshape(b: Builder, x: Id, shape: Sequence[int]) -> Id:
    """Row by row; -1 is whatever is left. Axes of size 1 that come and go are views."""
    mine, wanted = extent(b, x), list(shape)
    if -1 in wanted:
        known = -math.prod(wanted)
        wanted[wanted.index(-1)] = math.prod(mine) // known if known else 0
    if [n for n in mine if n != 1] != [n for n in wanted if n != 1]:
        return b.reshape(x, *wanted)
    x = squeeze(b, x, [axis for axis, n in enumerate(mine) if n == 1])
    for axis, n in enumerate(wanted):
        if n == 1:
            x = expand(b, x, axis)
    return x


def diagonal(b: Builder, x: Id, offset: int, first: int, second: int) -> Id:
    """Along two axes, which become one at the end."""
    shape = extent(b, x)
    first, second = first % len(shape), second % len(shape)
    count = max(0, min(shape[first] + min(offset, 0), shape[second] - max(offset, 0)))
    kept = [axis for axis in range(len(shape)) if axis not in (first, second)]
    rank = len(kept) + 1
    index = [
        (max(0, -offset) if axis == first else max(0, offset), _unit(rank, rank - 1))
        if axis in (first, second)
        else (0, _unit(rank, kept.index(axis)))
        for axis in range(len(shape))
    ]
    return view(b, x, [*(shape[axis] for axis in kept), count], index)


def windows(
    b: Builder, x: Id, axes: Sequence[int], sizes: Sequence[int], steps: Sequence[int],
    gaps: Sequence[int],
) -> Id:  # fmt: skip
    """All windows: an axis of places in place of each, and axes within windows at the end."""
    shape = list(extent(b, x))
    rank = len(shape) + len(axes)
    index: list[tuple[int, Sequence[int]]] = [(0, _unit(rank, axis)) for axis in range(len(shape))]
    for at, (axis, size, step, gap) in enumerate(zip(axes, sizes, steps, gaps, strict=True)):
        inner = len(index) + at
        index[axis] = (
            0,
            tuple(step if place == axis else gap if place == inner else 0 for place in range(rank)),
        )
        shape[axis] = (shape[axis] - gap * (size - 1) - 1) // step + 1
    return view(b, x, [*shape, *sizes], index)


def places(b: Builder, shape: Sequence[int], axis: int, dtype: str = "int64") -> Id:
    """The index along one axis of an array of that shape, to be broadcast."""
    x = b.arange(shape[axis], dtype)
    return view(b, x, [n if at == axis else 1 for at, n in enumerate(shape)],
                [(0, _unit(len(shape), axis))])  # fmt: skip


def take(b: Builder, x: Id, indices: Sequence[Id | None]) -> Id:
    """Advanced indexing: an array of indices, or none, for each axis.

    Where the arrays are side by side, their axes come in their place, else in front.
    """
    shape = extent(b, x)
    known = [axis for axis, one in enumerate(indices) if one is not None]
    drawn = [one for one in indices if one is not None]
    common = extent(b, _like(b, drawn))
    is_together = known == list(range(known[0], known[-1] + 1))
    lead = known[0] if is_together else 0
    rest = [axis for axis in range(len(shape)) if axis not in known]
    before, after = rest[:lead], rest[lead:]
    result = [*(shape[a] for a in before), *common, *(shape[a] for a in after)]
    found: list[Id] = []
    for axis in range(len(shape)):
        one = indices[axis] if axis < len(indices) else None
        if one is not None:
            wide = b.cast(one, "int64")
            for _ in after:
                wide = expand(b, wide, len(b.shape(wide)))
            found.append(wide)
            continue
        at = before.index(axis) if axis in before else lead + len(common) + after.index(axis)
        found.append(places(b, result, at))
    return b.gather(x, *[broadcast_to(b, one, result) for one in found])


def _like(b: Builder, args: Sequence[Id]) -> Id:
    total = args[0]
    for one in args[1:]:
        total = b.apply("add", b.cast(total, "int64"), b.cast(one, "int64"))
    return total


def wrapped(b: Builder, index: Id, size: int) -> Id:
    """Indices of which negative ones count from the end."""
    index = b.cast(index, "int64")
    is_below = b.apply("lt", index, b.constant(0, "int64"))
    return b.apply("where", is_below, b.apply("add", index, b.dimension(size)), index)


def with_box(b: Builder, x: Id, low: Sequence[int], part: Id) -> Id:
    """`x` in which a box is replaced by `part`, which begins at `low` and has all axes."""
    if extent(b, part) == extent(b, x):
        return part
    return b.add(Boxed(b.shape(x), b[x].dtype, x, part, tuple(map(Size.of, low))))


def unboxed(b: Builder, box: Boxed) -> Id:
    """The same in the vocabulary."""
    padded = b.pad(box.updates, box.low, box.shape)
    inside: Id | None = None
    for axis, (low, part, whole) in enumerate(
        zip(box.low, b.shape(box.updates), box.shape, strict=True)
    ):
        first, count, size = low.at({}), part.at({}), whole.at({})
        if count == size:
            continue
        at = places(b, [one.at({}) for one in box.shape], axis)
        tests = [b.apply("ge", at, b.dimension(first))] if first else []
        if first + count < size:
            tests.append(b.apply("lt", at, b.dimension(first + count)))
        for test in tests:
            inside = test if inside is None else b.apply("and", inside, test)
    assert inside is not None  # something is outside
    return b.apply("where", inside, padded, box.arg)


def with_steps(b: Builder, x: Id, parts: Sequence[tuple[int, int, int]], update: Id) -> Id:
    """`x` in which a slice with steps is replaced."""
    counts = [count for _, _, count in parts]
    indices: list[Id] = []
    for axis, (start, step, _) in enumerate(parts):
        at = places(b, counts, axis)
        at = b.apply("mul", at, b.dimension(step))
        indices.append(broadcast_to(b, b.apply("add", at, b.dimension(start)), counts))
    return b.scatter("set", x, indices, update)


def matmul(b: Builder, x: Id, y: Id, dtype: str) -> Id:
    """As `@`: of vectors, matrices and batches of them."""
    left, right = extent(b, x), extent(b, y)
    batch = max(len(left), len(right)) - 2
    letters = LETTERS[: max(batch, 0)]
    mine = letters[batch - max(len(left) - 2, 0) :] + ("mk"[-min(len(left), 2) :])
    theirs = letters[batch - max(len(right) - 2, 0) :] + ("kn"[: min(len(right), 2)])
    result = letters + ("m" if len(left) > 1 else "") + ("n" if len(right) > 1 else "")
    if batch > 0:
        common = [max(pair) for pair in zip(
            (1,) * (batch - max(len(left) - 2, 0)) + left[:-2],
            (1,) * (batch - max(len(right) - 2, 0)) + right[:-2], strict=True)]  # fmt: skip
        if len(left) > 2:
            x = broadcast_to(b, x, (*common[batch - len(left) + 2 :], *left[-2:]))
        if len(right) > 2:
            y = broadcast_to(b, y, (*common[batch - len(right) + 2 :], *right[-2:]))
    return contracted(b, f"{mine},{theirs}->{result}", x, y, dtype)


def contracted(b: Builder, spec: str, x: Id, y: Id, dtype: str) -> Id:
    """A contraction of that dtype; halves are summed in float32."""
    wide = "float32" if dtype in HALVES else dtype
    return b.cast(b.contract(spec, b.cast(x, wide), b.cast(y, wide)), dtype)


def einsum(b: Builder, spec: str, args: Sequence[Id], dtype: str) -> Id:
    """Any number of operands, one after the other; letters and no dots."""
    spec = spec.replace(" ", "")
    if "->" not in spec:
        letters = spec.replace(",", "")
        spec += "->" + "".join(sorted(one for one in set(letters) if letters.count(one) == 1))
    given, result = spec.split("->")
    terms = [_without_twins(b, *pair) for pair in zip(given.split(","), args, strict=True)]
    while len(terms) > 1:
        (mine, x), (theirs, y), *rest = terms
        later = set(result).union(*(letters for letters, _ in rest))
        kept = "".join(one for one in dict.fromkeys(mine + theirs) if one in later)
        if not rest:
            kept = result
        terms = [(kept, contracted(b, f"{mine},{theirs}->{kept}", x, y, dtype)), *rest]
    letters, x = terms[0]
    gone = [axis for axis, one in enumerate(letters) if one not in result]
    if gone:
        x = reduced(b, "sum", b.cast(x, dtype), gone)
        letters = "".join(one for one in letters if one in result)
    return permute(b, x, [letters.index(one) for one in result])


def _without_twins(b: Builder, letters: str, x: Id) -> tuple[str, Id]:
    """An operand without a letter that comes twice: its diagonal."""
    for first, second in combinations(range(len(letters)), 2):
        if letters[first] == letters[second]:
            left = "".join(c for at, c in enumerate(letters) if at not in (first, second))
            x = diagonal(b, x, 0, first, second)
            return _without_twins(b, left + letters[first], x)
    return letters, x


def reduced(b: Builder, op: str, x: Id, axes: Sequence[int], *, keeps: bool = False) -> Id:
    """Along some axes, none: as it is; halves are summed in float32."""
    dtype = b[x].dtype
    axes = sorted(axis % len(b.shape(x)) for axis in axes)
    if axes:
        is_wide = dtype in HALVES and op in {"sum", "prod"}
        x = b.cast(x, "float32") if is_wide else x
        x = b.reduce(op, x, *axes)
        x = b.cast(x, dtype) if is_wide else x
    if keeps:
        for axis in axes:
            x = expand(b, x, axis)
    return x


def mean(b: Builder, x: Id, axes: Sequence[int], *, keeps: bool = False, less: int = 0) -> Id:
    """A sum by how many there are, less some; computed in float32 for halves."""
    shape, dtype = extent(b, x), b[x].dtype
    wide = "float32" if dtype in HALVES else dtype
    total = reduced(b, "sum", b.cast(x, wide), axes, keeps=keeps)
    count = math.prod(shape[axis] for axis in axes) - less
    return b.cast(b.apply("div", total, b.dimension(count, wide)), dtype)


def variance(b: Builder, x: Id, axes: Sequence[int], *, keeps: bool = False, less: int = 0) -> Id:
    """The mean square of what is left without the mean."""
    dtype = b[x].dtype
    wide = b.cast(x, "float32" if dtype in HALVES else dtype)
    rest = b.apply("sub", wide, mean(b, wide, axes, keeps=True))
    return b.cast(mean(b, b.apply("mul", rest, rest), axes, keeps=keeps, less=less), dtype)


DEEPEST = 8
"""Operations up to which two values are compared. Chosen."""


def is_same(nodes: Builder | Graph, one: Id, other: Id, depth: int = DEEPEST) -> bool:
    """Whether two nodes are the same value, written down twice."""
    if one == other:
        return True
    mine, theirs = nodes[one], nodes[other]
    if type(mine) is not type(theirs) or not isinstance(mine, (View, Cast, Constant, Elementwise)):
        return False
    alone = [node.moved(dict.fromkeys(node.operands, 0)) for node in (mine, theirs)]
    if depth == 0 or repr(alone[0]) != repr(alone[1]):  # a NaN is another's equal here
        return False
    pairs = zip(mine.operands, theirs.operands, strict=True)
    return all(is_same(nodes, *pair, depth - 1) for pair in pairs)
