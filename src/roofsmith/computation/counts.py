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
    """Of one computation."""

    operations: Mapping[str, Size]
    """By what is done: `add`, `exp`, `contract`; a sum's additions are `add`."""
    read_bytes: Size
    written_bytes: Size

    @property
    def flops(self) -> Size:
        """All operations together."""
        return sum(self.operations.values(), start=Size())

    @property
    def contraction_flops(self) -> Size:
        """Those of matrix products and the like."""
        return self.operations.get("contract", Size())


def counted(graph: g.Graph) -> WorkCounts:
    """What a graph does."""
    found: dict[str, Size] = {}
    times = {place: end.count for loop, end in graph.repeated().items()
             for place in graph.body(loop)}  # fmt: skip
    for place, node in enumerate(graph.nodes):
        turns = times.get(place, Size.of(1))
        match node:
            case g.Elementwise() if node.op not in FREE and _counts(graph, node):
                _more(found, node.op, turns * elements(node.shape))
            case g.Reduce(op="sum" | "prod" | "max" | "min") | g.Scan() if _counts(graph, node):
                name = {"sum": "add", "prod": "mul"}.get(node.op, node.op)
                _more(found, name, turns * elements(graph[node.arg].shape))
            case g.Contract():
                _more(found, "contract", 2 * turns * _products(graph, node))
            case g.Scatter() if node.op != "set" and _counts(graph, node):
                _more(found, node.op, turns * elements(graph[node.updates].shape))
            case _:
                pass
    read = sum((_read(graph, at) for at, node in enumerate(graph.nodes)
                if isinstance(node, g.Input) and node.shape), start=Size())  # fmt: skip
    written = sum((elements(graph[at].shape) * ITEM_BYTES[graph[at].dtype]
                   for at in graph.outputs.values()), start=Size())  # fmt: skip
    return WorkCounts(found, read, written)


def _more(found: dict[str, Size], name: str, size: Size) -> None:
    found[name] = found.get(name, Size()) + size


def _counts(graph: g.Graph, node: g.Node) -> bool:
    """Whether it is done to numbers that come of given arrays: not to places or to dims."""
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
    return False


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
