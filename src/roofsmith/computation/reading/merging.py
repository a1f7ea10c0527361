"""Readings at several workloads made one graph: numbers that differ become sizes in dims."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from roofsmith.computation.building import Builder
from roofsmith.computation.graph import Affine, Constant, Graph, Id, Input, Node
from roofsmith.computation.reading.fitting import Fit
from roofsmith.computation.sizes import Size

DIGITS = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1.2e-7}
"""Relative errors of types; float64's elsewhere."""


@dataclass(frozen=True)
class OneReading:
    dims: Mapping[str, int]
    """Of its workload, and whole numbers that the reference is given."""
    graph: Graph
    """With sizes in numbers."""
    lines: tuple[str, ...] = ()
    """Of the reference, for each node; empty: unknown."""


class DiffersError(Exception):
    """Two readings aren't of one structure: something decides what is computed."""


def shape_of_reading(graph: Graph) -> tuple[Any, ...]:
    """What readings of one structure have in common."""
    return (
        tuple(_outline(node) for node in graph.nodes),
        tuple(graph.outputs.items()),
        graph.notes,
    )


def _outline(value: Any) -> Any:
    if isinstance(value, (Size, Affine)):
        return "size" if isinstance(value, Size) else ("index", len(value.strides))
    if isinstance(value, Constant):
        return ("Constant", value.dtype)
    if isinstance(value, Node):
        return (type(value).__name__, *(_outline(getattr(value, f.name)) for f in fields(value)))
    if isinstance(value, tuple):
        return tuple(map(_outline, value))
    return value


def merged(readings: Sequence[OneReading]) -> Graph:
    """One graph of several readings.

    Raises:
        DiffersError: they aren't of one structure.
    """
    outlines = [shape_of_reading(one.graph) for one in readings]
    if any(one != outlines[0] for one in outlines):
        raise DiffersError
    fit = Fit([one.dims for one in readings])
    builder = Builder()
    for note in readings[0].graph.notes:
        builder.note(note)
    places: dict[Id, Id] = {}
    for place, node in enumerate(readings[0].graph.nodes):
        seen = [one.graph.nodes[place] for one in readings]
        line = f" ({readings[0].lines[place]})" if readings[0].lines else ""
        if isinstance(node, Constant):
            values = [one.value for one in seen if isinstance(one, Constant)]
            places[place] = _constant(builder, fit, node, values, line)
        else:
            made = replace(node, **_fitted(builder, fit, seen, line))
            places[place] = builder.add(made.moved(places))
    outputs = {name: places[at] for name, at in readings[0].graph.outputs.items()}
    return builder.graph(**outputs)


def _fitted(builder: Builder, fit: Fit, seen: Sequence[Node], line: str) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for one in fields(seen[0]):
        values = [getattr(node, one.name) for node in seen]
        if isinstance(values[0], Size) or (
            isinstance(values[0], tuple) and values[0] and isinstance(values[0][0], (Size, Affine))
        ):
            changed[one.name] = _sized(builder, fit, values, line)
    return changed


def _sized(builder: Builder, fit: Fit, values: Sequence[Any], line: str) -> Any:
    first = values[0]
    if isinstance(first, Size):
        numbers = [size.at({}) for size in values]
        if (size := fit.size(numbers)) is not None:
            return size
        builder.note(f"a size that no dims give: {', '.join(map(str, numbers))}{line}")
        return first
    if isinstance(first, Affine):
        return Affine(
            _sized(builder, fit, [one.offset for one in values], line),
            _sized(builder, fit, [one.strides for one in values], line),
        )
    return tuple(_sized(builder, fit, column, line) for column in zip(*values, strict=True))


def _constant(builder: Builder, fit: Fit, node: Constant, values: Sequence[Any], line: str) -> Id:
    """A number; one that dims decide is computed in float64, as Python does."""
    if all(one == values[0] or one != one for one in values):
        return builder.add(node)
    dtype = node.dtype
    if all(isinstance(one, int) for one in values):
        size = fit.size(values)
        if size is not None:
            return builder.dimension(size, dtype)
    elif (found := fit.number(values, DIGITS.get(dtype, 3e-16))) is not None:
        form, size, times = found
        value = builder.dimension(size, "float64")
        count = times.at({})
        if abs(count) != 1:
            value = builder.apply("div", value, builder.constant(float(abs(count)), "float64"))
        if form.endswith("root"):
            value = builder.apply("sqrt", value)
        if form.startswith("inverse"):
            value = builder.apply("div", builder.constant(1.0, "float64"), value)
        value = builder.apply("neg", value) if count < 0 else value
        return builder.cast(value, dtype)
    numbers = ", ".join(f"{one:g}" for one in values[:3])
    builder.note(f"a constant that no dims give: {numbers}, ...{line}")
    return builder.add(node)


def without_inputs(graph: Graph, names: Collection[str]) -> Graph:
    """The same with zeros for some inputs."""
    builder = Builder()
    for note in graph.notes:
        builder.note(note)
    places: dict[Id, Id] = {}
    for place, node in enumerate(graph.nodes):
        if isinstance(node, Input) and node.name in names:
            places[place] = builder.view(builder.constant(0, node.dtype), node.shape, ())
        else:
            places[place] = builder.add(node.moved(places))
    return builder.graph(**{name: places[at] for name, at in graph.outputs.items()})


def inputs_of(graph: Graph) -> tuple[str, ...]:
    return tuple(node.name for node in graph.nodes if isinstance(node, Input))
