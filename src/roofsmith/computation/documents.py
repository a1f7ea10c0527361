"""Graphs as JSON and back; what comes from a process that ran foreign code is believed nothing."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from roofsmith.computation import graph as g
from roofsmith.computation.sizes import Size

NODES: Mapping[str, type[g.Node]] = {
    kind.__name__: kind
    for kind in vars(g).values()
    if isinstance(kind, type) and issubclass(kind, g.Node) and kind is not g.Node
}


def as_sizes(sizes: Mapping[str, Size]) -> dict[str, Any]:
    """Sizes by name as what JSON holds."""
    return {name: _plain(size) for name, size in sizes.items()}


def from_sizes(document: Any) -> dict[str, Size]:
    """The sizes that a document holds.

    Raises:
        ValueError: it holds none.
    """
    _require(isinstance(document, dict))
    return {_made(name, str): _size(size) for name, size in document.items()}


def as_document(graph: g.Graph) -> dict[str, Any]:
    """A graph as what JSON holds."""
    return {
        "nodes": [
            {"node": type(node).__name__}
            | {one.name: _plain(getattr(node, one.name)) for one in fields(node)}
            for node in graph.nodes
        ],
        "outputs": dict(graph.outputs),
        "notes": list(graph.notes),
    }


def from_document(document: Any) -> g.Graph:
    """The graph that a document holds.

    Raises:
        ValueError: it holds none.
    """
    try:
        nodes: list[g.Node] = []
        for one in document["nodes"]:
            kind = NODES[one["node"]]
            types_of = _types(one["node"])
            made = kind(**{name: _made(one[name], of) for name, of in types_of.items()})
            _require(all(0 <= place < len(nodes) for place in made.operands))
            nodes.append(made)
        outputs = _made(document["outputs"], dict[str, int])
        _require(all(0 <= place < len(nodes) for place in outputs.values()))
        return g.Graph(tuple(nodes), outputs, _made(document["notes"], tuple[str, ...]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no graph: {error!r}") from error


@cache
def _types(name: str) -> dict[str, Any]:
    kind = NODES[name]
    hints = typing.get_type_hints(kind)
    return {one.name: hints[one.name] for one in fields(kind)}


def _plain(value: Any) -> Any:
    if isinstance(value, Size):
        if (number := value.constant) is not None:
            return number
        return {
            "terms": [[list(factors), count] for factors, count in value.terms],
            "quotients": {name: list(map(_plain, pair)) for name, pair in value.quotients},
        }
    if isinstance(value, g.Affine):
        return {"offset": _plain(value.offset), "strides": list(map(_plain, value.strides))}
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return value


def _made(value: Any, of: Any) -> Any:
    if of is Size:
        return _size(value)
    if of is g.Affine:
        _require(isinstance(value, dict))
        return g.Affine(_size(value["offset"]), _made(value["strides"], tuple[Size, ...]))
    origin, inner = typing.get_origin(of), typing.get_args(of)
    if origin is tuple:
        _require(isinstance(value, list) and (inner[-1] is ... or len(inner) == len(value)))
        return tuple(_made(one, inner[0]) for one in value)
    if origin is dict:
        _require(isinstance(value, dict))
        return {_made(name, inner[0]): _made(one, inner[1]) for name, one in value.items()}
    if origin in (typing.Union, types.UnionType):
        _require(type(value) in inner)
        return value
    _require(type(value) is of)
    return value


def _size(value: Any) -> Size:
    if type(value) is int:
        return Size.of(value)
    _require(isinstance(value, dict))
    terms = tuple((_made(names, tuple[str, ...]), _made(n, int)) for names, n in value["terms"])
    pairs = {_made(k, str): _made(v, tuple[Size, ...]) for k, v in value["quotients"].items()}
    _require(all(len(pair) == 2 for pair in pairs.values()))
    return Size(terms, tuple((name, (pair[0], pair[1])) for name, pair in sorted(pairs.items())))


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError("no graph: a value isn't of its type")
