"""Boxes of arrays that are replaced: who reads what was written, and what is overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from roofsmith.computation import graph as g
from roofsmith.computation.building import Builder
from roofsmith.computation.reading import forms
from roofsmith.computation.reading.merging import OneReading
from roofsmith.computation.simplify import is_whole, through
from roofsmith.computation.sizes import Size


@dataclass(frozen=True)
class BoxWrite:
    """An array in which a box is replaced by `part`."""

    place: g.Id
    base: g.Id
    part: g.Id
    low: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def box(self) -> tuple[slice, ...]:
        return tuple(slice(a, a + n) for a, n in zip(self.low, self.sizes, strict=True))


def box_write(nodes: g.Graph | Builder, place: g.Id) -> BoxWrite | None:
    """What is replaced where; None: the node is something else. Sizes are numbers."""
    node = nodes[place]
    if not isinstance(node, forms.Boxed):
        return None
    sizes = numbers(nodes[node.updates].shape)
    return BoxWrite(place, node.arg, node.updates, numbers(node.low), sizes)


class Rewriter(Builder):
    """Nodes of a reading written anew, each with its line."""

    def __init__(self, old: OneReading) -> None:
        """Nothing is written yet."""
        super().__init__(shares=False)
        self.old = old
        self.places: dict[g.Id, g.Id] = {}
        self.line = ""
        self._lines: list[str] = []
        for note in old.graph.notes:
            self.note(note)

    def add(self, node: g.Node) -> g.Id:
        """A node of the old one's line that is written now."""
        self._lines.append(self.line)
        return super().add(node)

    def reading(self) -> OneReading:
        outputs = {name: self.places[at] for name, at in self.old.graph.outputs.items()}
        return pruned(OneReading(self.old.dims, self.graph(**outputs), tuple(self._lines)))


def pruned(reading: OneReading) -> OneReading:
    """Without what no result needs."""
    graph = reading.graph
    needed = set(graph.outputs.values())
    for place in range(len(graph.nodes) - 1, -1, -1):
        if place in needed:
            needed.update(graph[place].operands)
    kept = sorted(needed)
    places = {old: new for new, old in enumerate(kept)}
    nodes = tuple(graph[place].moved(places) for place in kept)
    outputs = {name: places[at] for name, at in graph.outputs.items()}
    lines = tuple(reading.lines[place] for place in kept)
    return OneReading(reading.dims, g.Graph(nodes, outputs, graph.notes), lines)


def forwarded(reading: OneReading) -> OneReading:
    """What was written into a box is read from where it comes, and not from the whole array."""
    b = Rewriter(pruned(reading))
    for place, node in enumerate(b.old.graph.nodes):
        b.line = b.old.lines[place]
        moved = node.moved(b.places)
        b.places[place] = _seen(b, moved) if isinstance(moved, g.View) else b.add(moved)
    return _without_overwritten(b.reading())


def unboxed(reading: OneReading) -> OneReading:
    """Boxes in the vocabulary: in an array of one number they are padded, else tests say where."""
    b = Rewriter(reading)
    for place, node in enumerate(reading.graph.nodes):
        b.line = reading.lines[place]
        moved = node.moved(b.places)
        if not isinstance(moved, forms.Boxed):
            b.places[place] = b.add(moved)
        elif (value := _filling(b, moved.arg)) is not None:
            b.places[place] = b.pad(moved.updates, moved.low, moved.shape, value)
        else:
            b.places[place] = forms.unboxed(b, moved)
    return b.reading()


def _filling(b: Builder, place: g.Id) -> float | int | bool | None:
    """The number that all elements are; None: they differ, or it isn't known."""
    node = b[place]
    while isinstance(node, g.View):
        node = b[node.arg]
    return node.value if isinstance(node, g.Constant) else None


def _seen(b: Rewriter, view: g.View) -> g.Id:
    while True:
        inner = b[view.arg]
        if isinstance(inner, g.View):
            index = tuple(through(part, view) for part in inner.index)
            view = replace(view, arg=inner.arg, index=index)
            continue
        if is_whole(view, inner.shape):
            return view.arg
        write = box_write(b, view.arg)
        if write is None:
            return b.add(view)
        spans = _spans(view)
        ends = [a + n for a, n in zip(write.low, write.sizes, strict=True)]
        if any(high < a or low >= end
               for (low, high), a, end in zip(spans, write.low, ends, strict=True)):  # fmt: skip
            view = replace(view, arg=write.base)
        elif all(a <= low and high < end
                 for (low, high), a, end in zip(spans, write.low, ends, strict=True)):  # fmt: skip
            index = tuple(
                replace(part, offset=part.offset - a)
                for part, a in zip(view.index, write.low, strict=True)
            )
            view = replace(view, arg=write.part, index=index)
        else:
            return b.add(view)


def _spans(view: g.View) -> list[tuple[int, int]]:
    """The lowest and the highest index that is seen, for each axis of the viewed array."""
    found = []
    for part in view.index:
        low = high = part.offset.at({})
        for step, size in zip(part.strides, view.shape, strict=True):
            reach = step.at({}) * (size.at({}) - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        found.append((low, high))
    return found


def chains(graph: g.Graph) -> list[list[BoxWrite]]:
    """Writes into one array, one behind the other, that nobody reads between."""
    users = graph.users()
    results = set(graph.outputs.values())
    found: dict[g.Id, list[BoxWrite]] = {}
    for place in range(len(graph.nodes)):
        if (write := box_write(graph, place)) is None:
            continue
        is_private = users[write.base] == (place,) and write.base not in results
        before = found.pop(write.base, []) if is_private else []
        before.append(write)
        found[place] = before
    return list(found.values())


def _without_overwritten(reading: OneReading) -> OneReading:
    """Without writes of which later ones leave nothing."""
    graph = reading.graph
    bases: dict[g.Id, g.Id] = {}
    for chain in chains(graph):
        covered = np.zeros(numbers(graph[chain[0].place].shape), dtype=bool)
        for write in reversed(chain):
            if covered[write.box].all():
                bases[write.place] = write.base
            covered[write.box] = True
    if not bases:
        return reading
    b = Rewriter(reading)
    for place, node in enumerate(graph.nodes):
        b.line = reading.lines[place]
        b.places[place] = b.places[bases[place]] if place in bases else b.add(node.moved(b.places))
    return b.reading()


def numbers(sizes: Sequence[Size]) -> tuple[int, ...]:
    return tuple(size.at({}) for size in sizes)
