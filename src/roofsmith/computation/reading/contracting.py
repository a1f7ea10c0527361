"""Sums of products that loops have written out, as contractions."""

from __future__ import annotations

from collections.abc import Mapping

from roofsmith.computation import graph as g
from roofsmith.computation.building import ONE, ZERO, Builder
from roofsmith.computation.reading.forms import LETTERS
from roofsmith.computation.simplify import simplified
from roofsmith.computation.sizes import Shape

FLOATS = frozenset(("float32", "float64"))


def contracted(graph: g.Graph) -> g.Graph:
    """The same results; a sum along axes that both factors have, and one has others, is one."""
    b = Builder()
    for note in graph.notes:
        b.note(note)
    places: dict[g.Id, g.Id] = {}
    for place, node in enumerate(graph.nodes):
        made = _contraction(graph, node, places, b) if isinstance(node, g.Reduce) else None
        places[place] = b.add(node.moved(places)) if made is None else made
    outputs = {name: places[at] for name, at in graph.outputs.items()}
    return simplified(b.graph(**outputs))


def _contraction(
    graph: g.Graph, node: g.Reduce, places: Mapping[g.Id, g.Id], b: Builder
) -> g.Id | None:
    product = graph[node.arg]
    if node.op != "sum" or node.dtype not in FLOATS or not isinstance(product, g.Elementwise):
        return None
    if product.op != "mul" or len(product.shape) > len(LETTERS) or ONE in product.shape:
        return None
    first, second = (_factor(graph, arg, product.shape) for arg in product.args)
    if first is None or second is None:
        return None
    (left, mine), (right, theirs) = first, second
    gone = {LETTERS[axis] for axis in node.axes}
    if not gone <= set(mine) & set(theirs) or set(mine) == set(theirs):
        return None
    every = LETTERS[: len(product.shape)]
    if set(mine) | set(theirs) != set(every):
        return None
    result = "".join(one for one in every if one not in gone)
    made = b.contract(f"{mine},{theirs}->{result}", places[left], places[right])
    return made if b.shape(made) == node.shape else None


def _factor(graph: g.Graph, place: g.Id, shape: Shape) -> tuple[g.Id, str] | None:
    """An array that a product's axes walk, and their letters; None: they walk it otherwise."""
    node = graph[place]
    lead = len(shape) - len(node.shape)
    if not isinstance(node, g.View):
        if any(size != shape[lead + axis] for axis, size in enumerate(node.shape)):
            return None
        return place, LETTERS[lead : len(shape)]
    letters = ""
    for part, size in zip(node.index, graph[node.arg].shape, strict=True):
        axes = [axis for axis, step in enumerate(part.strides) if step != ZERO]
        if len(axes) != 1 or part.strides[axes[0]] != ONE or part.offset != ZERO:
            return None
        if not size == node.shape[axes[0]] == shape[lead + axes[0]]:
            return None
        letters += LETTERS[lead + axes[0]]
    return (node.arg, letters) if len(set(letters)) == len(letters) else None
