"""Loops over a size, which a reading has unrolled, as axes of that size.

Of three kinds: iterations that write disjoint boxes of one array, that are set one behind the
other, and that are added up. What isn't exactly such a loop is left as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from roofsmith.computation import graph as g
from roofsmith.computation.reading import forms
from roofsmith.computation.reading.lifting import CannotLift, Lifter, attempted, is_neutral
from roofsmith.computation.reading.merging import OneReading
from roofsmith.computation.reading.ragged import inside
from roofsmith.computation.reading.sweeps import swept
from roofsmith.computation.reading.writes import BoxWrite, Rewriter, chains, forwarded, numbers

FEW_LOOPS = 3
"""Loops one after the other that a reference has itself. Chosen."""
LEAST_TURNS = 3
"""Iterations of a loop that looks at other elements in each. Chosen: two are a progression always.
"""
DEPTH = 6
"""Most loops one within another, from the innermost on. Chosen."""
FOLDS = {"add": "sum", "max": "max", "min": "min"}
"""Reductions that many operations come to in any order; floats' sums are rounded otherwise."""


def rolled(reading: OneReading) -> OneReading:
    """The same results, without what was unrolled and can be rolled."""
    shorter = swept(reading)
    loops = len(shorter.graph.repeated())
    reading = forwarded(shorter if loops <= FEW_LOOPS else reading)  # else each element has its own
    for _ in range(DEPTH):
        smaller = _once(reading)
        if smaller is None:
            break
        reading = forwarded(smaller)
    return swept(reading, LEAST_TURNS, moves=True)


def _once(reading: OneReading) -> OneReading | None:
    """With loops rolled that have no other in them; None: there are none."""
    graph, b = reading.graph, Rewriter(reading)
    writes = {chain[-1].place: chain for chain in chains(graph)}
    sums = {chain[-1]: chain for chain in _sums(graph)}
    picks = {chain[-1]: chain for chain in _picks(graph)}
    done: set[g.Id] = set()
    for place, node in enumerate(graph.nodes):
        b.line = reading.lines[place]
        made = None
        if place in writes:
            made = _rolled_writes(b, writes[place], done)
        elif place in sums:
            made = _rolled_sum(b, sums[place], done)
        elif place in picks:
            made = _rolled_pick(b, picks[place], done)
        elif isinstance(node, g.Concat):
            made = _rolled_concat(b, node, done)
        if made is not None:
            done.add(place)
        b.places[place] = b.add(node.moved(b.places)) if made is None else made
    return b.reading() if done else None


def _by_line(lines: Sequence[str], places: Sequence[g.Id]) -> list[list[int]] | None:
    """Which of the places are one statement's, at least two of each and of all as many.

    Otherwise some iterations do what others don't.
    """
    found: dict[str, list[int]] = {}
    for at, place in enumerate(places):
        found.setdefault(lines[place], []).append(at)
    counts = {len(group) for group in found.values()}
    return list(found.values()) if len(counts) == 1 and counts != {1} else None


def _rolled_writes(b: Rewriter, chain: Sequence[BoxWrite], done: set[g.Id]) -> g.Id | None:
    """An array of which iterations write disjoint boxes."""
    graph = b.old.graph
    groups = _by_line(b.old.lines, [write.place for write in chain])
    if groups is None:
        return None
    written = np.zeros(numbers(graph[chain[0].place].shape), dtype=np.int64)
    for write in chain:
        written[write.box] += 1
    if written.max(initial=0) > 1:
        return None
    whole: g.Id = b.places[chain[0].base]
    for group in groups:
        ordered = sorted((chain[at] for at in group), key=lambda write: write.low)
        closed = {*done, *(write.part for write in ordered), *(write.place for write in chain)}
        base = whole

        def attempt(
            lifter: Lifter, base: g.Id = base, ordered: Sequence[BoxWrite] = ordered
        ) -> g.Id:
            return _boxes(b, lifter, base, ordered)

        made = attempted(b, len(ordered), closed, attempt)
        if made is None:
            return None
        whole = made
    return whole


def _boxes(b: Rewriter, lifter: Lifter, whole: g.Id, writes: Sequence[BoxWrite]) -> g.Id:
    """`whole` in which the boxes of all iterations are replaced at once."""
    first = writes[0]
    if any(write.sizes != first.sizes for write in writes):
        return _ragged_boxes(b, lifter, whole, writes)
    moves = [lifter.affine(column) for column in zip(*(write.low for write in writes), strict=True)]
    parts, order, shape = [], [], []
    for axis, (low, steps) in enumerate(moves):
        loops = sorted((at for at, step in enumerate(steps) if step), key=lambda at: -steps[at])
        counts = [lifter.iterations[at] for at in loops]
        size, step = first.sizes[axis], 1
        count = size
        if len(loops) == 1 and size == 1:
            count, step = counts[0], steps[loops[0]]
        else:
            for at in reversed(loops):
                if steps[at] != count:
                    raise CannotLift
                count *= lifter.iterations[at]
        parts.append((low, step, count))
        order += [*loops, len(lifter.iterations) + axis]
        shape.append(count)
    if sorted(order) != list(range(len(order))):
        raise CannotLift
    made = lifter.lifted(tuple(write.part for write in writes))
    part = forms.reshape(b, forms.permute(b, made, order), shape)
    if all(step == 1 for _, step, _ in parts):
        return forms.with_box(b, whole, [low for low, _, _ in parts], part)
    return forms.with_steps(b, whole, parts, part)


def _ragged_boxes(b: Rewriter, lifter: Lifter, whole: g.Id, writes: Sequence[BoxWrite]) -> g.Id:
    """Rows of which each iteration replaces a part, which grows or shrinks."""
    if len(lifter.iterations) != 1:
        raise CannotLift
    made = lifter.lifted(tuple(write.part for write in writes))
    own = lifter.ragged.get(made)
    if own is None:
        raise CannotLift
    moves = [lifter.affine(column) for column in zip(*(write.low for write in writes), strict=True)]
    rows = [axis for axis, (_, steps) in enumerate(moves) if steps != (0,) and axis != own.axis]
    start, (step,) = moves[own.axis]
    if len(rows) != 1 or moves[rows[0]][1] != (1,) or writes[0].sizes[rows[0]] != 1:
        raise CannotLift
    shift = start - own.low[0]
    if own.low[1] != (step,) or shift < 0:
        raise CannotLift
    count, *sizes = forms.extent(b, made)
    low = [shift if axis == own.axis else base for axis, (base, _) in enumerate(moves)]
    index = [
        (base, tuple(int(axis == rows[0]) if at == 0 else int(at == axis + 1)
                     for at in range(len(sizes) + 1)))
        for axis, base in enumerate(low)
    ]  # fmt: skip
    before = forms.view(b, whole, [count, *sizes], index)
    test = inside(b, lifter.iterations, [count, *sizes], own)
    part = b.apply("where", test, made, before)
    order = [axis + 1 for axis in range(len(sizes))]
    order[rows[0] : rows[0] + 1] = [0, rows[0] + 1]
    sizes[rows[0]] = count
    return forms.with_box(b, whole, low, forms.reshape(b, forms.permute(b, part, order), sizes))


def _rolled_concat(b: Rewriter, node: g.Concat, done: set[g.Id]) -> g.Id | None:
    """Arrays one behind the other that are of one form."""
    if len(node.args) < 2:
        return None

    def attempt(lifter: Lifter) -> g.Id:
        made = lifter.lifted(node.args)
        count, rank = len(lifter.iterations), len(node.shape)
        order = [*range(count, count + node.axis), *range(count),
                 *range(count + node.axis, count + rank)]  # fmt: skip
        return forms.reshape(b, forms.permute(b, made, order), numbers(node.shape))

    return attempted(b, len(node.args), {*done, *node.args}, attempt)


def _sums(graph: g.Graph) -> list[list[g.Id]]:
    """Operations of one kind, each on the result of the one before, which nobody else needs."""
    users, results = graph.users(), set(graph.outputs.values())
    found: dict[g.Id, list[g.Id]] = {}
    for place, node in enumerate(graph.nodes):
        if not isinstance(node, g.Elementwise) or node.op not in FOLDS or node.dtype == "bool":
            continue
        before = [
            arg
            for arg in node.args
            if arg in found and users[arg] == (place,) and arg not in results
            and node.args[0] != node.args[1] and _kind(graph[arg]) == _kind(node)
        ]  # fmt: skip
        longest = max(before, key=lambda arg: len(found[arg]), default=None)
        found[place] = [*(found.pop(longest) if longest is not None else []), place]
    return [chain for chain in found.values() if len(chain) > 1]


def _kind(node: g.Node) -> tuple[object, ...]:
    return getattr(node, "op", None), node.shape, node.dtype


def _rolled_sum(b: Rewriter, chain: Sequence[g.Id], done: set[g.Id]) -> g.Id | None:
    """What iterations add up, without what is added before and behind them."""
    graph, lines = b.old.graph, b.old.lines
    own = [lines[place] for place in chain]
    first, last = 0, len(chain)
    while last - first > 1 and own.count(own[first]) == 1:
        first += 1
    while last - first > 1 and own.count(own[last - 1]) == 1:
        last -= 1
    groups = _by_line(lines, chain[first:last])
    if groups is None:
        return None
    sides = [graph[link].operands.index(before) for before, link in pairwise(chain)]
    sides = [sides[0], *sides]
    operands = [graph[place].operands for place in chain]
    terms = [pair[1 - side] for pair, side in zip(operands, sides, strict=True)]
    total = b.places[operands[first][sides[first]]]
    op = graph[chain[0]].op  # type: ignore[attr-defined]
    for group in groups:
        column = tuple(terms[first + at] for at in group)

        def attempt(lifter: Lifter, column: tuple[g.Id, ...] = column) -> g.Id:
            made = lifter.lifted(column)
            return forms.reduced(b, FOLDS[op], made, range(len(lifter.iterations)))

        made = attempted(b, len(column), {*done, *chain, *column}, attempt)
        if made is None:
            return None
        is_alone = is_neutral(b, op, total) and b.shape(made) == graph[chain[0]].shape
        total = made if is_alone else b.apply(op, total, made)
    for term in terms[last:]:
        total = b.apply(op, total, b.places[term])
    return total


def _picks(graph: g.Graph) -> list[list[g.Id]]:
    """Numbers of which each is kept, or replaced where a condition holds."""
    users, found = graph.users(), dict[g.Id, list[g.Id]]()
    for place, node in enumerate(graph.nodes):
        if isinstance(node, g.Elementwise) and node.op == "where" and not node.shape:
            before = node.args[2]
            chain = found.pop(before, []) if users[before] == (place,) else []
            found[place] = [*chain, place]
    return [chain for chain in found.values() if len(chain) > 1]


@dataclass(frozen=True)
class Pick:
    """A chain that ends with the place of the largest number, or the smallest."""

    op: str
    """`max` or `min`."""
    values: tuple[g.Id, ...]
    start: g.Id
    """What they are compared with first."""
    first: int
    """The place that is kept of the first of them."""
    step: int
    other: g.Id
    """The place that is kept where none of them is any larger."""


def _rolled_pick(b: Rewriter, chain: Sequence[g.Id], done: set[g.Id]) -> g.Id | None:
    """Where the largest or smallest of numbers is, the first of equals."""
    graph = b.old.graph
    pick = _pick(b.old, chain)
    if pick is None:
        return None
    starts_alike = forms.is_same(graph, pick.start, pick.values[0])
    known = getattr(graph[pick.other], "value", None)
    columns: list[tuple[g.Id, ...]] = []
    if known == pick.first and (starts_alike or is_neutral(b, pick.op, b.places[pick.start])):
        columns.append(pick.values)
    elif known == pick.first - pick.step:  # it may be one of them
        columns.append((pick.start, *pick.values))
    for column, is_all in (*((one, True) for one in columns), (pick.values, False)):
        closed = {*done, *chain, *column}
        made = attempted(b, len(column), closed, partial(_picked, b, pick, column, is_all))
        if made is not None:
            return b.cast(made, graph[chain[0]].dtype)
    return None


def _picked(
    b: Rewriter, pick: Pick, column: tuple[g.Id, ...], is_all: bool, lifter: Lifter
) -> g.Id:
    made = lifter.lifted(column)
    if len(lifter.iterations) > 1:
        raise CannotLift
    at = b.reduce(f"arg{pick.op}", made, 0)
    first = pick.first - pick.step * (len(column) - len(pick.values))
    at = b.apply("mul", at, b.dimension(pick.step)) if pick.step != 1 else at
    at = b.apply("add", at, b.dimension(first)) if first else at
    if is_all:
        return at
    compare = "gt" if pick.op == "max" else "lt"
    test = b.apply(compare, b.reduce(pick.op, made, 0), b.places[pick.start])
    return b.apply("where", test, at, b.cast(b.places[pick.other], "int64"))


def _pick(reading: OneReading, chain: Sequence[g.Id]) -> Pick | None:
    graph = reading.graph
    rows = [graph[place].operands for place in chain]
    pairs = [pair for test, *_ in rows if (pair := _larger_first(graph[test])) is not None]
    kept = [node.value for _, one, _ in rows if isinstance(node := graph[one], g.Constant)]
    is_ruled = len(kept) == len(pairs) == len(chain) and all(type(one) is int for one in kept)
    if not is_ruled or len({reading.lines[place] for place in chain}) > 1:
        return None
    first, step = int(kept[0]), int(kept[1] - kept[0])
    if any(one != first + step * at for at, one in enumerate(kept)):
        return None
    for side, op in enumerate(("max", "min")):
        values, tops = (tuple(pair[at] for pair in pairs) for at in (side, 1 - side))
        if all(
            _is_largest(graph, op, top, value, before)
            for value, before, top in zip(values, tops, tops[1:], strict=False)
        ):
            return Pick(op, values, tops[0], first, step, rows[0][2])
    return None


def _larger_first(test: g.Node) -> tuple[g.Id, ...] | None:
    """What is compared, as `first > second`; None: it isn't."""
    if not isinstance(test, g.Elementwise) or test.op not in ("gt", "lt"):
        return None
    return test.args if test.op == "gt" else test.args[::-1]


def _is_largest(graph: g.Graph, op: str, top: g.Id, value: g.Id, before: g.Id) -> bool:
    """Whether `top` is the larger, or smaller, of the two."""
    node = graph[top]
    return (
        isinstance(node, g.Elementwise)
        and node.op == op
        and any(
            forms.is_same(graph, one, before) and forms.is_same(graph, other, value)
            for one, other in (node.args, node.args[::-1])
        )
    )
