"""What is stored although it is no result: what many elements need, and what costs much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofsmith.computation import graph as g
from roofsmith.computation.building import ONE, ZERO

COSTLY = 16
"""Work from which on a value isn't computed again for each of many: one call into a library."""
INDEX_WORK = 4
"""The same of indices, which stand between a loop and its vectors: a quotient. Chosen."""
LONGEST = 200
"""Work from which on a value is stored where several need it, so that text stays short. Chosen."""
CALLS = frozenset((
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "sinh",
    "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "pow", "atan2",
    "fmod",
))  # fmt: skip
"""Operations that take a call into a library, or a polynomial."""
_SLOW = frozenset(["div", "sqrt", "rsqrt", "mod", "floordiv"])


def reachable(graph: g.Graph) -> tuple[g.Id, ...]:
    """Nodes that results depend on, operands first."""
    found, waiting = set[g.Id](), list(graph.outputs.values())
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            waiting += graph[place].operands
    return tuple(sorted(found))


def stages(graph: g.Graph) -> Mapping[g.Id, int]:
    """Of each node: before the first loop 0, in it 1, behind it 2, in the second 3, and so on."""
    found: dict[g.Id, int] = {}
    order: dict[int, int] = {}
    for place, node in enumerate(graph.nodes):
        stage = max((found[arg] for arg in node.operands), default=0)
        if isinstance(node, g.CarriedValue):
            stage = order.setdefault(node.loop, 2 * len(order) + 1)
        elif isinstance(node, g.Repeated):
            stage = order[node.loop] + 1
        found[place] = stage
    return found


def is_anchor(node: g.Node) -> bool:
    """Whether it isn't computed again: a reduction, contraction, scan, scatter or sort."""
    match node:
        case g.Reduce():
            return bool(node.axes)
        case g.Contract():
            return bool(summed(node))
        case g.Scan() | g.Scatter() | g.Sort():
            return True
        case _:
            return False


def summed(node: g.Contract) -> set[str]:
    """Letters that the result lacks."""
    return set(node.left_axes + node.right_axes) - set(node.result_axes)


def stored_apart(graph: g.Graph, nodes: Sequence[g.Id]) -> frozenset[g.Id]:
    """Elementwise and other nodes that are computed once and stored."""
    users = {
        place: [user for user in found if user in set(nodes)]
        for place, found in graph.users().items()
    }
    found = set[g.Id]()
    work: dict[g.Id, int] = {}
    reduced: dict[g.Id, bool] = {}
    """Whether it depends on a reduction that isn't stored."""
    for place in nodes:
        node = graph[place]
        if is_anchor(node) or isinstance(node, g.Input | g.CarriedValue | g.Repeated):
            work[place], reduced[place] = 0, is_anchor(node)
            continue
        work[place] = _own_work(node) + sum(work[arg] for arg in node.operands)
        reduced[place] = any(reduced[arg] for arg in node.operands)
        if (
            (
                isinstance(node, g.Elementwise | g.Cast)
                and any(
                    _demands(graph, place, user, work[place], reduced[place])
                    for user in users[place]
                )
            )
            or (
                isinstance(node, g.Elementwise)
                and work[place] >= 2
                and _is_windowed(graph, users[place], users)
            )
            or (work[place] > LONGEST and len(users[place]) > 1)
        ):
            found.add(place)
        if place in found:
            work[place], reduced[place] = 0, False
    return frozenset(found)


def _own_work(node: g.Node) -> int:
    if not isinstance(node, g.Elementwise):
        return 0
    return COSTLY if node.op in CALLS else 4 if node.op in _SLOW else 1


def _demands(graph: g.Graph, place: g.Id, user: g.Id, work: int, reduced: bool) -> bool:
    """Whether one user needs each element many times, or in another order."""
    node, other = graph[place], graph[user]
    match other:
        case g.Contract():
            return bool(work) and _is_factor(place, other)
        case g.Elementwise():
            larger = node.shape != other.shape and bool(node.shape)
            return larger and work >= COSTLY and not reduced
        case g.View():
            factor = bool(work) and any(
                isinstance(graph[one], g.Contract) and _is_factor(user, graph[one])
                for one in graph.users()[user]
            )
            repeated = any(
                size != ONE and all(part.strides[axis] == ZERO for part in other.index)
                for axis, size in enumerate(other.shape)
            )
            least = INDEX_WORK if _is_index(graph, user) else COSTLY
            return factor or (repeated and work >= least and not reduced)
        case g.Reshape():
            factor = any(
                isinstance(graph[one], g.Contract) and _is_factor(user, graph[one])
                for one in graph.users()[user]
            )
            return bool(work) and factor
        case g.Gather():
            return work >= COSTLY and place == other.arg
        case g.Sort():
            return False
        case _:
            return False


def _is_index(graph: g.Graph, place: g.Id) -> bool:
    """Whether elements are picked by it."""
    readers = [graph[user] for user in graph.users()[place]]
    return any(isinstance(one, g.Gather) and place in one.indices for one in readers)


def _is_factor(place: g.Id, node: g.Node) -> bool:
    """Whether it is an operand of a sum of products that uses its elements many times."""
    if not isinstance(node, g.Contract) or not summed(node):
        return False
    letters = set(node.left_axes) | set(node.right_axes)
    sides = ((node.left, node.left_axes), (node.right, node.right_axes))
    return any(arg == place and set(axes) != letters for arg, axes in sides)


def _walked(view: g.View) -> tuple[g.Affine, ...]:
    """What two views differ by that may have elements in common: no constant places."""
    return tuple(part for part in view.index if any(step != ZERO for step in part.strides))


def _is_windowed(
    graph: g.Graph, users: Sequence[g.Id], all_users: Mapping[g.Id, Sequence[g.Id]]
) -> bool:
    """Whether neighbours are read together: several slices, or windows of it, padded or not."""
    views = [node for user in users if isinstance(node := graph[user], g.View)]
    windows = any(
        sum(step != ZERO for step in part.strides) > 1 for view in views for part in view.index
    )
    padded = (user for user in users if isinstance(graph[user], g.Pad))
    return (
        windows
        or len({_walked(view) for view in views}) > 1
        or any(_is_windowed(graph, all_users[user], all_users) for user in padded)
    )
