"""How much a computation does: operations and bytes, as sizes in dims.

An operation on an element counts one, whatever it is; an addition of a sum, too; a contraction two
for each product. Selections, casts and what is done to indices count nothing. Bytes are those that
nobody can do without: every input once, every output once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from roofsmith.computation import graph as g
from roofsmith.computation.sizes import Size, elements

ITEM_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip
FREE = frozenset(("where",)) | g.COMPARISONS


@dataclass(frozen=True)
class WorkCounts:
    operations: Mapping[str, Size]
    """By what is done: `add`, `exp`, `contract`; a sum's additions are `add`."""
    read_bytes: Size
    written_bytes: Size
    swept_bytes: Size
    """What repeated loops pass over, in every iteration anew: a cache's traffic, where one holds
    it all. Nothing without such loops, and no floor: iterations may be done together."""

    @property
    def flops(self) -> Size:
        return sum(self.operations.values(), start=Size())

    @property
    def contraction_flops(self) -> Size:
        """Those of matrix products and the like."""
        return self.operations.get("contract", Size())


def counted(graph: g.Graph) -> WorkCounts:
    found: dict[str, Size] = {}
    times = {place: end.count for loop, end in graph.repeated().items()
             for place in graph.body(loop)}  # fmt: skip
    hidden = _hidden(graph)
    for place, node in enumerate(graph.nodes):
        if (work := _work(graph, node)) is None:
            continue
        name, size = work
        size = size * times.get(place, 1)
        found[name] = found.get(name, Size()) + (size // 2 if place in hidden else size)
    read = sum((_read(graph, at) for at, node in enumerate(graph.nodes)
                if isinstance(node, g.Input) and node.shape), start=Size())  # fmt: skip
    written = sum((_bytes(graph[at]) for at in graph.outputs.values()), start=Size())
    swept = sum((end.count * _passed(graph, loop, end) for loop, end in graph.repeated().items()),
                start=Size())  # fmt: skip
    return WorkCounts(found, read, written, swept)


def _passed(graph: g.Graph, loop: int, end: g.Repeated) -> Size:
    """Bytes that an iteration reads of what others made, and leaves to them."""
    body = graph.body(loop)
    inside = set(body)
    total = Size()
    for place in sorted({one for at in body for one in graph[at].operands} - inside):
        users = [graph[at] for at in body if place in graph[at].operands]
        if all(isinstance(user, g.Scatter) and user.arg == place for user in users):
            continue  # it stays where it is
        picked = [user for user in users if isinstance(user, g.Gather) and user.arg == place]
        seen = picked if len(picked) == len(users) else [graph[place]]
        if _counts(graph, graph[place]) or isinstance(graph[place], g.Input):
            total = total + sum((_bytes(one) for one in seen), start=Size())
    for _, made in end.pairs:
        node = graph[made]
        total = total + _bytes(graph[node.updates] if isinstance(node, g.Scatter) else node)
    return total


def _bytes(node: g.Node) -> Size:
    return elements(node.shape) * ITEM_BYTES[node.dtype]


def _work(graph: g.Graph, node: g.Node) -> tuple[str, Size] | None:
    """What a node does once, by name; None: nothing that counts."""
    match node:
        case g.Contract():
            return "contract", 2 * _products(graph, node)
        case g.Elementwise() if node.op not in FREE and _counts(graph, node):
            return node.op, elements(node.shape)
        case g.Reduce(op="sum" | "prod" | "max" | "min") | g.Scan() if _counts(graph, node):
            name = {"sum": "add", "prod": "mul"}.get(node.op, node.op)
            return name, elements(graph[node.arg].shape)
        case g.Scatter() if node.op != "set" and _counts(graph, node):
            return node.op, elements(graph[node.updates].shape)
        case _:
            return None


def _counts(graph: g.Graph, node: g.Node) -> bool:
    """Whether it is done to numbers that come of given arrays: not to places or to dims."""
    becomes = {begin: end for loop in graph.repeated().values() for begin, end in loop.pairs}
    waiting, seen = list(node.operands), set[g.Id]()
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        one = graph[place]
        if isinstance(one, g.Input) and one.shape:
            return True
        waiting += one.operands
        if place in becomes:
            waiting.append(becomes[place])
    return False


def _hidden(graph: g.Graph) -> frozenset[g.Id]:
    """What is done for elements that a mask by places leaves out, half of them at the most.

    Scores that are hidden needn't be computed, nor are weights of nothing multiplied: causal
    attention is half of its square. A count that many kernels undercut is no floor.
    """
    found = set[g.Id]()
    for mask in (at for at, node in enumerate(graph.nodes) if _masks(graph, node)):
        waiting = [mask]
        while waiting:
            node = graph[at := waiting.pop()]
            if isinstance(node, g.Contract | g.Elementwise | g.Cast | g.View | g.Reshape):
                found.add(at)
                waiting += () if isinstance(node, g.Contract) else node.operands
        made = {mask}
        for at, node in enumerate(graph.nodes):
            if made.isdisjoint(node.operands):
                continue
            if isinstance(node, g.Contract):
                found.add(at)
            elif isinstance(node, g.Elementwise | g.Cast | g.View | g.Reshape | g.Reduce):
                made.add(at)
        found |= made
    return frozenset(found)


def _masks(graph: g.Graph, node: g.Node) -> bool:
    """Whether it has a number in place of what is at some places, compared with one another."""
    if not isinstance(node, g.Elementwise) or node.op != "where":
        return False
    test, *values = (graph[one] for one in node.args)
    if len([size for size in test.shape if size.constant != 1]) < 2 or _counts(graph, test):
        return False
    return any(_is_number(graph, one) for one in values)


def _is_number(graph: g.Graph, node: g.Node) -> bool:
    while isinstance(node, g.View | g.Cast):
        node = graph[node.arg]
    return isinstance(node, g.Constant)


def _products(graph: g.Graph, node: g.Contract) -> Size:
    sizes = dict(zip(node.left_axes, graph[node.left].shape, strict=True))
    sizes |= dict(zip(node.right_axes, graph[node.right].shape, strict=True))
    return math.prod(sizes.values(), start=Size.of(1))


def _read(graph: g.Graph, place: g.Id) -> Size:
    """Bytes of an input that are needed: all, or as many as are picked of it."""
    node = graph[place]
    users = [graph[user] for user in graph.users()[place]]
    whole = elements(node.shape)
    picked = [user for user in users if isinstance(user, g.Gather) and place not in user.indices]
    if users and len(picked) == len(users):
        whole = sum((elements(user.shape) for user in picked), start=Size())
    elif len(users) == 1 and isinstance(users[0], g.View) and _shows_once(users[0]):
        whole = elements(users[0].shape)
    return whole * ITEM_BYTES[node.dtype]


def _shows_once(view: g.View) -> bool:
    """Whether no element is shown several times: each axis of the result moves along one."""
    moved = [[bool(stride.terms) for stride in part.strides] for part in view.index]
    return all(sum(row) <= 1 for row in moved) and all(
        size.constant == 1 or sum(row[axis] for row in moved) == 1
        for axis, size in enumerate(view.shape)
    )
