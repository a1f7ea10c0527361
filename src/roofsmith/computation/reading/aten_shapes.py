"""ATen's operations that move elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from roofsmith.computation.graph import Id
from roofsmith.computation.reading import forms
from roofsmith.computation.reading.aten import Converter, NodePlace, reads
from roofsmith.computation.sizes import Size


@reads("view", "reshape", "_unsafe_view", "_reshape_alias", "flatten", "squeeze", "unsqueeze")
def _reshaped(c: Converter, x: NodePlace, *_: Any, **__: Any) -> Id:
    return forms.reshape(c.b, x, c.shape)


@reads("permute")
def _permute(c: Converter, x: NodePlace, dims: Sequence[int]) -> Id:
    return forms.permute(c.b, x, [axis % len(dims) for axis in dims])


@reads("transpose")
def _transpose(c: Converter, x: NodePlace, first: int, second: int) -> Id:
    order = list(range(len(c.shape)))
    order[first], order[second] = order[second], order[first]
    return forms.permute(c.b, x, order)


@reads("t")
def _t(c: Converter, x: NodePlace) -> Id:
    return forms.permute(c.b, x, list(range(len(c.shape)))[::-1])


@reads("expand", "broadcast_to", "expand_as")
def _expand(c: Converter, x: NodePlace, *_: Any, **__: Any) -> Id:
    return forms.broadcast_to(c.b, x, c.shape)


@reads("broadcast_in_dim")
def _broadcast_in_dim(c: Converter, x: NodePlace, shape: Sequence[int], axes: Sequence[int]) -> Id:
    index = [
        (0, [int(at == axis and size == shape[axis]) for at in range(len(shape))])
        for axis, size in zip(axes, forms.extent(c.b, x), strict=True)
    ]
    return forms.view(c.b, x, shape, index)


@reads("select")
def _select(c: Converter, x: NodePlace, axis: int, place: int) -> Id:
    shape = forms.extent(c.b, x)
    axis %= len(shape)
    return forms.select(c.b, x, axis, place % shape[axis])


def _range(size: int, start: Any, end: Any, step: int) -> tuple[int, int]:
    first, last, _ = slice(start, end, step).indices(size)
    return first, len(range(first, last, step))


@reads("slice")
def _slice(
    c: Converter, x: NodePlace, axis: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Id:
    shape = forms.extent(c.b, x)
    axis %= len(shape)
    first, count = _range(shape[axis], start, end, step)
    return forms.part_of(c.b, x, axis, first, count, step)


@reads("slice_scatter")
def _slice_scatter(
    c: Converter, x: NodePlace, part: NodePlace, axis: int = 0, start: Any = None, end: Any = None,
    step: int = 1,
) -> Id:  # fmt: skip
    shape = forms.extent(c.b, x)
    axis %= len(shape)
    first, count = _range(shape[axis], start, end, step)
    part = NodePlace(c.cast(part, c.dtype))
    part = NodePlace(forms.broadcast_to(
        c.b, part, [count if at == axis else n for at, n in enumerate(shape)]))  # fmt: skip
    if step == 1 or count == 1:
        return forms.with_box(c.b, x, [first * (at == axis) for at in range(len(shape))], part)
    triples = [(first, step, count) if at == axis else (0, 1, n) for at, n in enumerate(shape)]
    return forms.with_steps(c.b, x, triples, part)


@reads("select_scatter")
def _select_scatter(c: Converter, x: NodePlace, part: NodePlace, axis: int, place: int) -> Id:
    shape = forms.extent(c.b, x)
    axis %= len(shape)
    wide = forms.expand(c.b, c.cast(part, c.dtype), axis)
    first = place % shape[axis]
    return forms.with_box(c.b, x, [first * (at == axis) for at in range(len(shape))], wide)


@reads("diagonal_scatter")
def _diagonal_scatter(
    c: Converter, x: NodePlace, part: NodePlace, offset: int = 0, first: int = 0, second: int = 1
) -> Id:
    b, shape = c.b, c.shape
    first, second = first % len(shape), second % len(shape)
    if (first, second) != (len(shape) - 2, len(shape) - 1) or offset:
        raise c.tape.refuse("a diagonal of other than the last axes is written to")
    rows, columns = (forms.places(b, shape, axis) for axis in (first, second))
    return b.apply("where", b.apply("eq", rows, columns), forms.expand(b, part, len(shape) - 1), x)


@reads("diagonal")
def _diagonal(c: Converter, x: NodePlace, offset: int = 0, first: int = 0, second: int = 1) -> Id:
    return forms.diagonal(c.b, x, offset, first, second)


@reads("flip", "rev")
def _flip(c: Converter, x: NodePlace, axes: Sequence[int]) -> Id:
    return forms.flip(c.b, x, [axis % len(c.shape) for axis in axes])


@reads("unfold")
def _unfold(c: Converter, x: NodePlace, axis: int, size: int, step: int) -> Id:
    axis %= len(forms.extent(c.b, x))
    return forms.windows(c.b, x, [axis], [size], [step], [1])


@reads("as_strided")
def _as_strided(c: Converter, x: NodePlace, size: Sequence[int], stride: Sequence[int],
                offset: int | None = None) -> Id:  # fmt: skip
    seen = c.fake(0)
    if not seen.is_contiguous():
        raise c.tape.refuse("as_strided of what isn't in one piece")
    flat = forms.reshape(c.b, x, (math.prod(seen.shape),))
    return forms.view(c.b, flat, size, [(offset or 0, stride)])


@reads("split")
def _split(c: Converter, x: NodePlace, size: int, axis: int = 0) -> list[Id]:
    shape = forms.extent(c.b, x)
    axis %= len(shape)
    return [
        forms.part_of(c.b, x, axis, first, min(size, shape[axis] - first))
        for first in range(0, shape[axis], size)
    ]


@reads("split_with_sizes")
def _split_with_sizes(c: Converter, x: NodePlace, sizes: Sequence[int], axis: int = 0) -> list[Id]:
    axis %= len(forms.extent(c.b, x))
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    return [forms.part_of(c.b, x, axis, first, n) for first, n in zip(starts, sizes, strict=True)]


@reads("unbind")
def _unbind(c: Converter, x: NodePlace, axis: int = 0) -> list[Id]:
    shape = forms.extent(c.b, x)
    axis %= len(shape)
    return [forms.select(c.b, x, axis, place) for place in range(shape[axis])]


@reads("cat")
def _cat(c: Converter, parts: Sequence[NodePlace], axis: int = 0) -> Id:
    shown = [c.cast(one, c.dtype) for one in parts if math.prod(forms.extent(c.b, one))]
    return c.b.concat(axis % len(c.shape), *shown)


@reads("stack")
def _stack(c: Converter, parts: Sequence[NodePlace], axis: int = 0) -> Id:
    axis %= len(c.shape)
    return c.b.concat(axis, *(forms.expand(c.b, c.cast(one, c.dtype), axis) for one in parts))


@reads("constant_pad_nd")
def _pad(c: Converter, x: NodePlace, pad: Sequence[int], value: Any = 0) -> Id:
    shape = list(forms.extent(c.b, x))
    low = [0] * len(shape)
    for at in range(len(pad) // 2):
        axis = len(shape) - 1 - at
        before, after = pad[2 * at], pad[2 * at + 1]
        if before < 0 or after < 0:
            first = max(0, -before)
            count = shape[axis] - first - max(0, -after)
            x = NodePlace(forms.part_of(c.b, x, axis, first, count))
            shape[axis] = count
        low[axis] = max(0, before)
        shape[axis] += max(0, before) + max(0, after)
    value = bool(value) if c.dtype == "bool" else value
    value = float(value) if c.dtype.startswith(("float", "bfloat")) else value
    return c.b.pad(x, tuple(map(Size.of, low)), tuple(map(Size.of, shape)), value)


@reads("roll")
def _roll(c: Converter, x: NodePlace, shifts: Sequence[int], axes: Sequence[int] = ()) -> Id:
    node: Id = x
    shape = forms.extent(c.b, node)
    if not axes:
        node = forms.reshape(c.b, node, (-1,))
    for shift, axis in zip(shifts, axes or (0,), strict=True):
        axis %= max(1, len(forms.extent(c.b, node)))
        size = forms.extent(c.b, node)[axis]
        if by := shift % size:
            tail = forms.part_of(c.b, node, axis, size - by, by)
            node = c.b.concat(axis, tail, forms.part_of(c.b, node, axis, 0, size - by))
    return forms.reshape(c.b, node, shape)


@reads("repeat")
def _repeat(c: Converter, x: NodePlace, times: Sequence[int]) -> Id:
    shape = forms.extent(c.b, x)
    shape = (1,) * (len(times) - len(shape)) + shape
    node = forms.reshape(c.b, x, [n for one in shape for n in (1, one)])
    wide = [n for pair in zip(times, shape, strict=True) for n in pair]
    return forms.reshape(c.b, forms.broadcast_to(c.b, node, wide), c.shape)
