"""ATen's convolutions and poolings: contractions and reductions over views with windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from roofsmith.computation.graph import Id
from roofsmith.computation.reading import forms
from roofsmith.computation.reading.aten import Converter, NodePlace, reads
from roofsmith.computation.sizes import Size


def _many(value: Sequence[int] | int, rank: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * rank if len(values) == 1 else values


def _padded(c: Converter, x: Id, padding: Sequence[int], value: Any, more: Sequence[int]) -> Id:
    """The last axes made longer on both sides, by `more` at the end."""
    if not any(padding) and not any(more):
        return x
    shape = list(forms.extent(c.b, x))
    low = [0] * (len(shape) - len(padding)) + list(padding)
    for at, (pad, extra) in enumerate(zip(padding, more, strict=True)):
        shape[len(shape) - len(padding) + at] += 2 * pad + extra
    return c.b.pad(x, tuple(map(Size.of, low)), tuple(map(Size.of, shape)), value)


@reads("convolution")
def _convolution(
    c: Converter, x: NodePlace, weight: NodePlace, bias: NodePlace | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool, output_padding: Any,
    groups: int,
) -> Id:  # fmt: skip
    b = c.b
    rank = len(b.shape(x)) - 2
    dtype = c.dtype
    wide = "float32" if dtype in forms.HALVES else dtype
    node, kernel = b.cast(x, wide), b.cast(weight, wide)
    stride, padding, dilation = (_many(one, rank) for one in (stride, padding, dilation))
    if transposed and max(dilation) == 1 < max(stride):
        made = _in_phases(c, node, kernel, stride, padding, groups)
        return _biased(c, made, bias, wide)
    if transposed:
        node, kernel = _transposed(
            c, node, kernel, stride, padding, dilation, output_padding, groups
        )
        padding, stride = [0] * rank, [1] * rank
    sizes = forms.extent(b, kernel)[2:]
    node = _padded(c, node, padding, 0.0, [0] * rank)
    axes = list(range(2, 2 + rank))
    seen = forms.windows(b, node, axes, sizes, stride, dilation)
    places, inner = "pqr"[:rank], "xyz"[:rank]
    if groups == 1:
        made = forms.contracted(
            b, f"nc{places}{inner},kc{inner}->nk{places}", seen, kernel, wide
        )  # fmt: skip
    else:
        shape, of = forms.extent(b, seen), forms.extent(b, kernel)
        seen = forms.reshape(b, seen, (shape[0], groups, shape[1] // groups, *shape[2:]))
        kernel = forms.reshape(b, kernel, (groups, of[0] // groups, *of[1:]))
        made = forms.contracted(
            b, f"ngc{places}{inner},gkc{inner}->ngk{places}", seen, kernel, wide
        )  # fmt: skip
    return _biased(c, forms.reshape(b, made, c.shape), bias, wide)


def _biased(c: Converter, made: Id, bias: NodePlace | None, wide: str) -> Id:
    """A convolution's result, with a number added to each channel."""
    if bias is not None:
        line = forms.reshape(c.b, c.b.cast(bias, wide), (1, -1, *[1] * (len(c.shape) - 2)))
        made = c.b.apply("add", made, line)
    return c.b.cast(made, c.dtype)


def _in_phases(
    c: Converter, x: Id, weight: Id, stride: Sequence[int], padding: Sequence[int], groups: int
) -> Id:
    """A transposed convolution of which no product is with a zero between elements.

    Place `step * j + r` sums `x[j - q] * weight[step * q + r]` over `q`: one contraction, with an
    axis `r` behind each `j`. Kernels are made a multiple of the stride long.
    """
    b, rank = c.b, len(stride)
    shape, of, result = forms.extent(b, x), forms.extent(b, weight), c.shape
    taps = [-(-size // step) for size, step in zip(of[2:], stride, strict=True)]
    whole = [*of[:2], *(tap * step for tap, step in zip(taps, stride, strict=True))]
    kernel = weight
    if tuple(whole) != of:
        kernel = b.pad(weight, tuple(map(Size.of, [0] * len(of))), tuple(map(Size.of, whole)), 0.0)
    parts = [n for pair in zip(taps, stride, strict=True) for n in pair]
    kernel = forms.flip(b, forms.reshape(b, kernel, [*of[:2], *parts]), range(2, 2 + 2 * rank, 2))
    low, high, spans = [0, 0], list(shape[:2]), [(0, 1, n) for n in shape[:2]]
    places, sliced = [], [(0, 1, n) for n in result[:2]]
    for size, tap, step, pad, wanted in zip(
        shape[2:], taps, stride, padding, result[2:], strict=True
    ):
        first, last = pad // step, (pad + wanted - 1) // step
        low.append(tap - 1)
        high.append(max(size + tap - 1, last + tap))
        spans.append((first, 1, last - first + tap))
        places += [last - first + 1, step]
        sliced.append((pad - first * step, 1, wanted))
    x = b.pad(x, tuple(map(Size.of, low)), tuple(map(Size.of, high)), 0.0)
    axes = range(2, 2 + rank)
    seen = forms.windows(b, forms.sliced(b, x, spans), axes, taps, [1] * rank, [1] * rank)
    at, inner, phases = "pqr"[:rank], "xyz"[:rank], "uvw"[:rank]
    shown = forms.extent(b, seen)
    seen = forms.reshape(b, seen, (shown[0], groups, shown[1] // groups, *shown[2:]))
    kernel = forms.reshape(b, kernel, (groups, of[0] // groups, of[1], *parts))
    mine = "".join(map("".join, zip(inner, phases, strict=True)))
    both = "".join(map("".join, zip(at, phases, strict=True)))
    made = forms.contracted(b, f"ngc{at}{inner},gck{mine}->ngk{both}", seen, kernel, b[x].dtype)
    joined = [count * step for count, step in zip(places[::2], places[1::2], strict=True)]
    return forms.sliced(b, forms.reshape(b, made, (*result[:2], *joined)), sliced)


def _transposed(
    c: Converter, x: Id, weight: Id, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], more: Sequence[int], groups: int,
) -> tuple[Id, Id]:  # fmt: skip
    """A transposed convolution as one: zeros between the elements, the kernel flipped."""
    b, rank = c.b, len(stride)
    shape, of = forms.extent(b, x), forms.extent(b, weight)
    more = _many(more, rank)
    if any(step != 1 for step in stride):  # an axis of zeros behind each, of which none is last
        for axis, step in enumerate(stride, start=2):
            x = forms.expand(b, x, axis + 1)
            inner = list(forms.extent(b, x))
            inner[axis + 1] = step
            x = b.pad(x, tuple(map(Size.of, [0] * len(inner))), tuple(map(Size.of, inner)), 0.0)
            count = inner[axis] * step
            x = forms.reshape(b, x, [*inner[:axis], count, *inner[axis + 2 :]])
            x = forms.part_of(b, x, axis, 0, count - step + 1)
    outer = [d * (k - 1) - p for d, k, p in zip(dilation, of[2:], padding, strict=True)]
    if min(outer) < 0:
        raise c.tape.refuse("a transposed convolution with more padding than kernel")
    x = _padded(c, x, outer, 0.0, more)
    kernel = forms.flip(b, weight, list(range(2, 2 + rank)))
    kernel = forms.reshape(b, kernel, (groups, shape[1] // groups, *of[1:]))
    kernel = forms.permute(b, kernel, [0, 2, 1, *range(3, 3 + rank)])
    return x, forms.reshape(b, kernel, (groups * of[1], shape[1] // groups, *of[2:]))


def _pooled(
    c: Converter, x: NodePlace, kernel: Any, stride: Any, padding: Any, dilation: Any, value: Any,
    beyond: bool, rank: int, dtype: str,
) -> tuple[Id, list[int], list[int]]:  # fmt: skip
    """Windows at the end, the axes that they are, and how large.

    Args:
        beyond: `ceil_mode`.
    """
    kernel = _many(kernel, rank)
    stride = _many(stride, rank) if stride else kernel
    padding, dilation = _many(padding, rank), _many(dilation, rank)
    node = c.b.cast(x, dtype)
    shape = forms.extent(c.b, node)
    first = len(shape) - rank
    # a last window may end outside: padded for the longest, whatever a size's remainder is
    more = [step - 1 if beyond else 0 for step in stride]
    node = _padded(c, node, padding, value, more)
    seen = forms.windows(c.b, node, list(range(first, first + rank)), kernel, stride, dilation)
    wanted = [*c.shape, *kernel]
    seen = forms.sliced(c.b, seen, [(0, 1, n) for n in wanted])
    return seen, list(range(len(shape), len(shape) + rank)), kernel


@reads("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool2d", "max_pool1d")
def _max_pool(c: Converter, x: NodePlace, kernel: Any, stride: Any = (), padding: Any = 0,
              dilation: Any = 1, ceil_mode: bool = False) -> list[Id]:  # fmt: skip
    rank = 3 if "3d" in str(c.node.target) else 1 if "1d" in str(c.node.target) else 2
    seen, axes, _ = _pooled(
        c, x, kernel, stride, padding, dilation, float("-inf"), ceil_mode, rank, c.dtype
    )  # fmt: skip
    found = forms.reduced(c.b, "max", seen, axes)
    if any(one.args[1] == 1 and one.users for one in c.node.users):
        raise c.tape.refuse("indices of a maximum's pooling aren't read")
    return [found, found]


@reads("avg_pool2d", "avg_pool3d", "avg_pool1d")
def _avg_pool(
    c: Converter, x: NodePlace, kernel: Any, stride: Any = (), padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Id:  # fmt: skip
    rank = 3 if "3d" in str(c.node.target) else 1 if "1d" in str(c.node.target) else 2
    dtype = c.dtype
    wide = "float32" if dtype in forms.HALVES else dtype
    seen, axes, sizes = _pooled(c, x, kernel, stride, padding, 1, 0.0, ceil_mode, rank, wide)
    total = forms.reduced(c.b, "sum", seen, axes)
    pads = _many(padding, rank)
    if not divisor_override and (ceil_mode or (not count_include_pad and any(pads))):
        shape = list(forms.extent(c.b, x))
        if count_include_pad:  # what is padded counts, and what lies beyond it doesn't
            shape = [*shape[:-rank], *(n + 2 * p for n, p in zip(shape[-rank:], pads, strict=True))]
            pads = [0] * rank
        ones = NodePlace(forms.full(c.b, shape, c.b.constant(1.0, wide)))
        counted, _, _ = _pooled(c, ones, kernel, stride, pads, 1, 0.0, ceil_mode, rank, wide)
        count = forms.reduced(c.b, "sum", counted, axes)
    else:
        count = c.b.dimension(divisor_override or math.prod(sizes), wide)
    return c.b.cast(c.b.apply("div", total, count), dtype)


@reads("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def _adaptive(c: Converter, x: NodePlace, size: Sequence[int]) -> Id:
    b, rank = c.b, len(size)
    node: Id = x
    shape = forms.extent(b, node)
    axes = []
    split: list[int] = list(shape[: len(shape) - rank])
    for at, (n, wanted) in enumerate(zip(shape[len(shape) - rank :], size, strict=True)):
        if n % wanted:
            raise c.tape.refuse("adaptive pooling of what doesn't divide isn't read")
        split += [wanted, n // wanted]
        axes.append(len(shape) - rank + 2 * at + 1)
    node = forms.reshape(b, node, split)
    return forms.mean(b, node, axes)
