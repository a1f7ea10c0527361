"""ATen's operations with arrays of indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofsmith.computation.graph import Id
from roofsmith.computation.reading import forms
from roofsmith.computation.reading.aten import Converter, NodePlace, reads


def _wrapped(c: Converter, index: NodePlace, size: int) -> Id:
    """Indices that may be negative."""
    if c.b[index].dtype in ("bool", "uint8"):
        raise c.tape.refuse("a mask of computed values decides how many elements there are")
    return forms.wrapped(c.b, index, size)


@reads("index", "_unsafe_index")
def _index(c: Converter, x: NodePlace, indices: Sequence[NodePlace | None]) -> Id:
    shape = forms.extent(c.b, x)
    return forms.take(
        c.b, x, [None if one is None else _wrapped(c, one, shape[axis])
                 for axis, one in enumerate(indices)])  # fmt: skip


@reads("index_put", "_unsafe_index_put")
def _index_put(
    c: Converter,
    x: NodePlace,
    indices: Sequence[NodePlace | None],
    values: NodePlace,
    accumulate: bool = False,
) -> Id:
    b, shape = c.b, forms.extent(c.b, x)
    only = [one for one in indices if one is not None]
    if len(only) == 1 and b[only[0]].dtype == "bool":
        mask = only[0]
        for _ in range(len(shape) - len(b.shape(mask))):
            mask = NodePlace(forms.expand(b, mask, len(b.shape(mask))))
        if len(b.shape(values)) > 0 and forms.extent(b, values) != (1,):
            raise c.tape.refuse("values are put one by one where a mask of computed values holds")
        value = forms.reshape(b, c.cast(values, c.dtype), ())
        value = b.apply("add", x, value) if accumulate else value
        return b.apply("where", mask, value, x)
    wrapped = [None if one is None else _wrapped(c, one, shape[axis])
               for axis, one in enumerate(indices)]  # fmt: skip
    gathered = b[forms.take(b, x, wrapped)]
    places = gathered.operands[1:]
    wide = forms.broadcast_to(b, c.cast(values, c.dtype), tuple(s.at({}) for s in gathered.shape))
    return b.scatter("add" if accumulate else "set", x, places, wide)


@reads("index_select")
def _index_select(c: Converter, x: NodePlace, axis: int, index: NodePlace) -> Id:
    shape = forms.extent(c.b, x)
    axis %= len(shape)
    return forms.take(c.b, x, [None] * axis + [_wrapped(c, index, shape[axis])])


@reads("embedding")
def _embedding(c: Converter, weight: NodePlace, index: NodePlace, *_: Any, **__: Any) -> Id:
    return forms.take(c.b, weight, [c.b.cast(index, "int64")])


def _along(c: Converter, axis: int, index: NodePlace) -> list[Id]:
    """One array of indices for each axis, where `index` is along one."""
    shape = forms.extent(c.b, index)
    axis %= max(1, len(shape))
    return [
        forms.broadcast_to(c.b, index if at == axis else forms.places(c.b, shape, at), shape)
        for at in range(len(shape))
    ]


@reads("gather")
def _gather(c: Converter, x: NodePlace, axis: int, index: NodePlace, **_: Any) -> Id:
    return c.b.gather(x, *_along(c, axis, NodePlace(c.b.cast(index, "int64"))))


@reads("scatter", "scatter_add", "scatter_reduce")
def _scatter(c: Converter, x: NodePlace, axis: int, index: NodePlace, source: Any, reduce: str = "",
             **o: Any) -> Id:  # fmt: skip
    b, name = c.b, str(c.node.target).split(".")[1]
    index = NodePlace(b.cast(index, "int64"))
    shape = forms.extent(b, index)
    op = "add" if name == "scatter_add" else {
        "": "set", "add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max",
        "amin": "min",
    }.get(reduce, "")  # fmt: skip
    if not op or o.get("include_self") is False:
        raise c.tape.refuse(f"{name} with {reduce!r} isn't read")
    update = c.of(source, c.dtype)
    if isinstance(source, NodePlace):
        parts = [(0, 1, count) for count in shape]
        update = forms.sliced(b, update, parts)
    return b.scatter(op, x, _along(c, axis, index), forms.broadcast_to(b, update, shape))


@reads("index_add")
def _index_add(c: Converter, x: NodePlace, axis: int, index: NodePlace, source: NodePlace, *,
               alpha: Any = 1) -> Id:  # fmt: skip
    b, shape = c.b, forms.extent(c.b, x)
    axis %= len(shape)
    gathered = b[forms.take(b, x, [None] * axis + [_wrapped(c, index, shape[axis])])]
    update = c.cast(source, c.dtype)
    if alpha != 1:
        update = b.apply("mul", update, c.of(alpha, c.dtype))
    return b.scatter("add", x, gathered.operands[1:], update)


@reads("bincount")
def _bincount(
    c: Converter, x: NodePlace, weights: NodePlace | None = None, minlength: int = 0
) -> Id:
    b, count = c.b, c.shape[0]
    if count != minlength:
        raise c.tape.refuse("bincount of computed values without a minlength that holds them")
    total = forms.full(b, (count,), c.of(0, c.dtype))
    update = c.of(1, c.dtype) if weights is None else c.cast(weights, c.dtype)
    places = b.cast(x, "int64")
    return b.scatter("add", total, [places], forms.broadcast_to(b, update, forms.extent(b, x)))
