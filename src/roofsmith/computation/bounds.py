"""Sizes that a graph needs, since it was read at larger ones: `D >= 3` of a roll by three."""

from __future__ import annotations

from collections.abc import Iterator

from roofsmith.computation import graph as g
from roofsmith.computation.sizes import Size


def needed_sizes(graph: g.Graph) -> tuple[str, ...]:
    """Conditions, as people write them, without which a view would be out of bounds.

    Nor is a loop one of fewer than no iterations: then its first ones were read as they stand.

    Dims are positive. What differences or quotients of dims decide is left out: whether it can
    fail isn't seen from its form.
    """
    least: dict[Size, int] = {}
    for margin in _margins(graph):
        constant = dict(margin.terms).get((), 0)
        rest = margin - constant
        counts = [count for _, count in rest.terms]
        if not counts or rest.quotients or min(counts) < 0 or sum(counts) + constant >= 0:
            continue
        if len(counts) == 1:  # 2*D >= 3 is D >= 2
            rest, constant = rest // counts[0], constant // counts[0]
        least[rest] = max(least.get(rest, 0), -constant)
    return tuple(f"{size} >= {count}" for size, count in least.items())


def _margins(graph: g.Graph) -> Iterator[Size]:
    """What must not be negative: a view's first index, the room behind its last, and counts."""
    for node in graph.nodes:
        if isinstance(node, g.Repeated):
            yield node.count
        if not isinstance(node, g.View):
            continue
        for size, part in zip(graph[node.arg].shape, node.index, strict=True):
            first = last = part.offset
            for stride, count in zip(part.strides, node.shape, strict=True):
                if all(times > 0 for _, times in stride.terms):
                    last = last + stride * (count - 1)
                else:
                    first = first + stride * (count - 1)
            yield first
            yield size - 1 - last
