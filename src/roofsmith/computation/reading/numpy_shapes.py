"""NumPy's functions that move elements, and those that make new arrays."""

# ruff: noqa: ARG001, ARG005 - signatures are NumPy's
from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy

from roofsmith.computation.reading import forms
from roofsmith.computation.reading.numpy_arrays import (
    Traced,
    ViewStep,
    converted,
    fresh,
    lifted,
    progression,
    sequence,
)
from roofsmith.computation.reading.numpy_functions import FUNCTIONS, reads
from roofsmith.computation.reading.numpy_indexing import Triangle
from roofsmith.computation.reading.numpy_ufuncs import applied
from roofsmith.computation.reading.tape import Tape
from roofsmith.computation.sizes import Size

np: Any = numpy
"""As it takes traced arrays, which its types don't know."""

ORIGINAL: dict[str, Callable[..., Any]] = {
    name: getattr(np, name)
    for name in (
        "array",
        "zeros",
        "ones",
        "empty",
        "full",
        "arange",
        "linspace",
        "eye",
        "asarray",
        "tril_indices",
        "triu_indices",
    )
}


@reads(np.reshape)
def _reshape(tape: Tape, a: Any, /, shape: Any = None, order: str = "C", **options: Any) -> Any:
    x = lifted(tape, a)
    shape = options.get("newshape", shape)
    if order not in ("C", "A", "K"):
        raise tape.refuse("reshape in another order than row by row isn't read")
    wanted = (shape,) if isinstance(shape, (int, np.integer)) else tuple(map(int, shape))
    real = x.real.reshape(wanted)
    before = x.shape
    step = ViewStep(
        lambda node: forms.reshape(tape.builder, node, real.shape),
        lambda _, part: forms.reshape(tape.builder, part, before),
    )
    if not np.shares_memory(real, x.real) and x.size:
        return x.made(step.shown(x.node), real)
    return x.viewed(real, step)


@reads(np.ravel)
def _ravel(tape: Tape, a: Any, order: str = "C") -> Any:
    return _reshape(tape, lifted(tape, a), (-1,), order)


@reads(np.transpose)
def _transpose(tape: Tape, a: Any, axes: Any = None) -> Any:
    x = lifted(tape, a)
    order = list(range(x.ndim))[::-1] if axes is None else [axis % x.ndim for axis in axes]
    back = [order.index(axis) for axis in range(x.ndim)]
    return x.viewed(x.real.transpose(order), ViewStep(
        lambda node: forms.permute(tape.builder, node, order),
        lambda _, part: forms.permute(tape.builder, part, back),
    ))  # fmt: skip


@reads(np.swapaxes)
def _swapaxes(tape: Tape, a: Any, axis1: int, axis2: int) -> Any:
    order = list(range(lifted(tape, a).ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return _transpose(tape, a, order)


@reads(np.moveaxis)
def _moveaxis(tape: Tape, a: Any, source: Any, destination: Any) -> Any:
    x = lifted(tape, a)
    taken, put = (list(sequence(one, x.ndim)) for one in (source, destination))
    order = [axis for axis in range(x.ndim) if axis not in taken]
    for place, axis in sorted(zip(put, taken, strict=True)):
        order.insert(place, axis)
    return _transpose(tape, x, order)


@reads(np.squeeze)
def _squeeze(tape: Tape, a: Any, axis: Any = None) -> Any:
    x = lifted(tape, a)
    axes = (
        [at for at, n in enumerate(x.shape) if n == 1] if axis is None else sequence(axis, x.ndim)
    )
    return _reshape(tape, x, [n for at, n in enumerate(x.shape) if at not in axes])


@reads(np.expand_dims)
def _expand_dims(tape: Tape, a: Any, axis: Any) -> Any:
    x = lifted(tape, a)
    return _reshape(tape, x, np.expand_dims(x.real, axis).shape)


for _rank, _function in enumerate((np.atleast_1d, np.atleast_2d), start=1):
    FUNCTIONS[_function] = lambda tape, a, _rank=_rank: _reshape(
        tape, lifted(tape, a), (1,) * (_rank - lifted(tape, a).ndim) + lifted(tape, a).shape
    )


@reads(np.broadcast_to)
def _broadcast_to(tape: Tape, array: Any, shape: Any, **_: Any) -> Any:
    x = lifted(tape, array)
    real = np.broadcast_to(x.real, shape)
    return x.made(forms.broadcast_to(tape.builder, x.node, real.shape), real)


@reads(np.broadcast_arrays)
def _broadcast_arrays(tape: Tape, *args: Any, **_: Any) -> Any:
    arrays = [lifted(tape, one) for one in args]
    shape = np.broadcast_shapes(*(one.shape for one in arrays))
    return tuple(_broadcast_to(tape, one, shape) for one in arrays)


@reads(np.flip)
def _flip(tape: Tape, m: Any, axis: Any = None) -> Any:
    x = lifted(tape, m)
    axes = sequence(axis, x.ndim)
    return x[tuple(slice(None, None, -1 if at in axes else 1) for at in range(x.ndim))]


FUNCTIONS[np.fliplr] = lambda tape, m: _flip(tape, m, 1)
FUNCTIONS[np.flipud] = lambda tape, m: _flip(tape, m, 0)


@reads(np.diagonal, np.diag)
def _diagonal(tape: Tape, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, **o: Any) -> Any:
    x = lifted(tape, a)
    offset = o.get("k", offset)
    if x.ndim == 1:
        if offset:
            raise tape.refuse("diag of a vector beside the diagonal isn't read")
        eye = lifted(tape, np.eye(len(x), dtype=bool))
        return FUNCTIONS[np.where](tape, eye, x, x.dtype.type(0))
    node = forms.diagonal(tape.builder, x.node, offset, axis1, axis2)
    return x.made(node, np.diagonal(x.real, offset, axis1, axis2))


def _triangle(tape: Tape, m: Any, k: int, *, lower: bool) -> Any:
    x = lifted(tape, m)
    rows, columns = _places(tape, x.shape[-2:], 0), _places(tape, x.shape[-2:], 1)
    shifted = columns - k if k else columns
    mask = rows >= shifted if lower else rows <= shifted
    return FUNCTIONS[np.where](tape, mask, x, x.dtype.type(0))


def _places(tape: Tape, shape: Sequence[int], axis: int) -> Any:
    real = np.arange(shape[axis]).reshape([-1 if at == axis else 1 for at in range(len(shape))])
    return fresh(tape, forms.places(tape.builder, shape, axis), real, given=False)


FUNCTIONS[np.tril] = lambda tape, m, k=0: _triangle(tape, m, k, lower=True)
FUNCTIONS[np.triu] = lambda tape, m, k=0: _triangle(tape, m, k, lower=False)


@reads(np.concatenate)
def _concatenate(tape: Tape, arrays: Any, axis: Any = 0, out: Any = None, **_: Any) -> Any:
    parts = [lifted(tape, one) for one in arrays]
    if axis is None:
        parts, axis = [_ravel(tape, one) for one in parts], 0
    dtype = np.result_type(*(one.dtype for one in parts))
    axis %= parts[0].ndim
    node = tape.builder.concat(axis, *(one.astype(dtype).node for one in parts))
    real = np.concatenate([one.real for one in parts], axis=axis)
    made = fresh(tape, node, real, given=any(one.given for one in parts))
    if out is not None:
        out[...] = made
        return out
    return made


@reads(np.stack)
def _stack(tape: Tape, arrays: Any, axis: int = 0, out: Any = None, **_: Any) -> Any:
    parts = [lifted(tape, one) for one in arrays]
    axis %= parts[0].ndim + 1
    return _concatenate(tape, [_expand_dims(tape, one, axis) for one in parts], axis, out)


FUNCTIONS[np.vstack] = lambda tape, tup, **_: _concatenate(
    tape, [one if one.ndim > 1 else one[None] for one in (lifted(tape, t) for t in tup)], 0
)
FUNCTIONS[np.hstack] = lambda tape, tup, **_: _concatenate(
    tape, tup, 0 if lifted(tape, tup[0]).ndim == 1 else 1
)
FUNCTIONS[np.column_stack] = lambda tape, tup: _concatenate(
    tape, [one if one.ndim > 1 else one[:, None] for one in (lifted(tape, t) for t in tup)], 1
)
FUNCTIONS[np.append] = lambda tape, arr, values, axis=None: _concatenate(tape, (arr, values), axis)


@reads(np.split, np.array_split)
def _split(tape: Tape, ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    x = lifted(tape, ary)
    real = np.array_split(np.arange(x.shape[axis]), indices_or_sections)
    key = (slice(None),) * (axis % x.ndim)
    ends = np.cumsum([0, *map(len, real)])
    return [x[(*key, slice(int(a), int(b)))] for a, b in pairwise(ends)]


@reads(np.roll)
def _roll(tape: Tape, a: Any, shift: Any, axis: Any = None) -> Any:
    x = lifted(tape, a)
    if axis is None:
        return _reshape(tape, _roll(tape, _ravel(tape, x), shift, 0), x.shape)
    for by, along in zip(np.broadcast_to(shift, np.shape(axis)).flat, sequence(axis, x.ndim),
                         strict=True):  # fmt: skip
        if by := int(by) % x.shape[along]:
            key = (slice(None),) * along
            x = _concatenate(
                tape, (x[(*key, slice(-by, None))], x[(*key, slice(None, -by))]), along
            )
    return x


@reads(np.tile)
def _tile(tape: Tape, A: Any, reps: Any) -> Any:
    x = lifted(tape, A)
    times = (reps,) if isinstance(reps, int) else tuple(reps)
    rank = max(len(times), x.ndim)
    times = (1,) * (rank - len(times)) + times
    shape = (1,) * (rank - x.ndim) + x.shape
    x = _reshape(tape, x, [n for one in shape for n in (1, one)])
    wide = _broadcast_to(tape, x, [n for pair in zip(times, shape, strict=True) for n in pair])
    return _reshape(tape, wide, [n * t for n, t in zip(shape, times, strict=True)])


@reads(np.repeat)
def _repeat(tape: Tape, a: Any, repeats: Any, axis: Any = None) -> Any:
    x = lifted(tape, a)
    if axis is None:
        x, axis = _ravel(tape, x), 0
    if not isinstance(repeats, int):
        raise tape.refuse("repeat by other than one number isn't read")
    axis %= x.ndim
    wide = _expand_dims(tape, x, axis + 1)
    shape = (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :])
    result = (*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :])
    return _reshape(tape, _broadcast_to(tape, wide, shape), result)


@reads(np.pad)
def _pad(tape: Tape, array: Any, pad_width: Any, mode: str = "constant", **options: Any) -> Any:
    x, b = lifted(tape, array), tape.builder
    widths = [(int(low), int(high)) for low, high in np.broadcast_to(pad_width, (x.ndim, 2))]
    real = np.pad(x.real, widths, mode=mode, **options)
    if mode == "constant":
        value = options.get("constant_values", 0)
        first = tuple(Size.of(one) for one, _ in widths)
        shape = tuple(map(Size.of, real.shape))
        plain = x.real.dtype.type(value).item()
        return x.made(b.pad(x.node, first, shape, plain), real)
    node = x.node
    for axis, ((low, high), size) in enumerate(zip(widths, x.shape, strict=True)):
        node = padded_by(tape, node, axis, size, low, high, mode)
    return x.made(node, real)


def padded_by(tape: Tape, node: Any, axis: int, size: int, low: int, high: int, mode: str) -> Any:
    """One axis made longer by its own elements."""
    b, parts = tape.builder, [node]
    if mode == "edge":
        before = [forms.part_of(b, node, axis, 0, 1)] * low
        after = [forms.part_of(b, node, axis, size - 1, 1)] * high
    elif mode in ("reflect", "symmetric"):
        off = int(mode == "reflect")
        before = [forms.part_of(b, node, axis, low - 1 + off, low, -1)] if low else []
        after = [forms.part_of(b, node, axis, size - 1 - off, high, -1)] if high else []
    elif mode == "wrap":
        before = [forms.part_of(b, node, axis, size - low, low)] if low else []
        after = [forms.part_of(b, node, axis, 0, high)] if high else []
    else:
        raise tape.refuse(f"pad with mode {mode!r} isn't read")
    parts = [*before, node, *after]
    return b.concat(axis, *parts) if len(parts) > 1 else node


def _like(value: Any) -> Callable[..., Any]:
    def read(tape: Tape, a: Any, dtype: Any = None, order: Any = None, subok: Any = None,
             shape: Any = None, **_: Any) -> Traced:  # fmt: skip
        x = lifted(tape, a)
        return filled(tape, x.shape if shape is None else shape, value, dtype or x.dtype)

    return read


FUNCTIONS.update({
    np.zeros_like: _like(0), np.ones_like: _like(1), np.empty_like: _like(0),
    np.full_like: lambda tape, a, fill_value, dtype=None, **_: filled(
        tape, lifted(tape, a).shape, fill_value, dtype or lifted(tape, a).dtype),
    np.copy: lambda tape, a, **_: a.made(a.node, a.real.copy()),
    np.shape: lambda tape, a: a.shape, np.ndim: lambda tape, a: a.ndim,
    np.size: lambda tape, a, axis=None: a.size if axis is None else a.shape[axis],
    np.result_type: lambda tape, *args: np.result_type(
        *(one.dtype if isinstance(one, Traced) else one for one in args)),
    np.shares_memory: lambda tape, a, b, **_: np.shares_memory(a.real, b.real),
    np.may_share_memory: lambda tape, a, b, **_: np.may_share_memory(a.real, b.real),
    np.iscomplexobj: lambda tape, a: False,
})  # fmt: skip


def filled(tape: Tape, shape: Any, value: Any, dtype: Any) -> Traced:
    if isinstance(value, Traced):
        made: Traced = FUNCTIONS[np.copy](tape, _broadcast_to(tape, value.astype(dtype), shape))
        return made
    real = ORIGINAL["full"](shape, value, dtype)
    node = forms.full(tape.builder, real.shape, tape.number(value, real.dtype.name))
    return fresh(tape, node, real, given=False)


def creators(tape: Tape) -> dict[str, Callable[..., Any]]:
    """What replaces NumPy's makers of arrays while a reference runs."""

    def zeros(shape: Any, dtype: Any = float, *_: Any, **__: Any) -> Traced:
        return filled(tape, shape, 0, dtype)

    def ones(shape: Any, dtype: Any = None, *_: Any, **__: Any) -> Traced:
        return filled(tape, shape, 1, dtype or float)

    def full(shape: Any, fill_value: Any, dtype: Any = None, *_: Any, **__: Any) -> Traced:
        kind = fill_value.dtype if hasattr(fill_value, "dtype") else np.asarray(fill_value).dtype
        return filled(tape, shape, fill_value, dtype or kind)

    def array(value: Any, dtype: Any = None, *_: Any, copy: Any = True, **__: Any) -> Traced:
        x = lifted(tape, value)
        x = x if dtype is None else x.astype(dtype)
        return x.made(x.node, x.real.copy()) if copy and isinstance(value, Traced) else x

    def asarray(value: Any, dtype: Any = None, *_: Any, **__: Any) -> Traced:
        x = lifted(tape, value)
        return x if dtype is None or np.dtype(dtype) == x.dtype else x.astype(dtype)

    def arange(*args: Any, dtype: Any = None, **__: Any) -> Traced:
        real = ORIGINAL["arange"](*args, dtype=dtype)
        start, step = (args[0] if len(args) > 1 else 0), (args[2] if len(args) > 2 else 1)
        return fresh(tape, progression(tape, start, step, len(real), real.dtype.name), real,
                     given=False)  # fmt: skip

    def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
                 dtype: Any = None, axis: int = 0) -> Any:  # fmt: skip
        del axis
        count = num - 1 if endpoint else num
        steps = fresh(tape, tape.builder.arange(num, "float64"), ORIGINAL["arange"](num) * 1.0,
                      given=False)  # fmt: skip
        whole = tape.builder.dimension(count, "float64")
        many = fresh(tape, whole, np.float64(count), given=False)
        step = applied(tape, np.divide, (stop - start, many))
        made = steps * step + start
        made = made if dtype is None else made.astype(dtype)
        return (made, step) if retstep else made

    def eye(N: int, M: Any = None, k: int = 0, dtype: Any = float, **__: Any) -> Traced:
        shape = (N, M or N)
        mask = _places(tape, shape, 0) + k == _places(tape, shape, 1)
        node = converted(tape, mask.node, "bool")
        made = fresh(tape, node, mask.real, given=False)
        return made.astype(dtype)

    def tri(N: int, M: Any = None, k: int = 0, dtype: Any = float) -> Any:
        return _triangle(tape, ones((N, M or N), dtype), k, lower=True)

    def triangle(name: str) -> Callable[..., Any]:
        def indices_of(n: int, k: int = 0, m: Any = None) -> Any:
            shape = (n, m or n)
            rows, columns = _places(tape, shape, 0) + k, _places(tape, shape, 1)
            mask = columns <= rows if name.startswith("tril") else columns >= rows
            found = Triangle(ORIGINAL[name](n, k, m))
            found.mask = fresh(tape, mask.node, mask.real, given=True)
            return found

        return indices_of

    def meshgrid(*axes: Any, indexing: str = "xy", sparse: bool = False, **__: Any) -> Any:
        arrays = [lifted(tape, one) for one in axes]
        order = [1, 0, *range(2, len(arrays))] if indexing == "xy" else list(range(len(arrays)))
        seen = []
        for at, one in enumerate(arrays):
            shape = [1] * len(arrays)
            shape[order[at]] = one.size
            seen.append(_reshape(tape, one, shape))
        return list(seen if sparse else _broadcast_arrays(tape, *seen))

    def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
        found = [_places(tape, dimensions, at).astype(dtype) for at in range(len(dimensions))]
        return tuple(found) if sparse else _stack(tape, _broadcast_arrays(tape, *found))

    return {
        "zeros": zeros, "empty": zeros, "ones": ones, "full": full, "array": array,
        "asarray": asarray, "asanyarray": asarray, "ascontiguousarray": asarray, "arange": arange,
        "linspace": linspace, "eye": eye, "identity": eye, "tri": tri, "meshgrid": meshgrid,
        "indices": indices, **{name: triangle(name) for name in ("tril_indices", "triu_indices")},
    }  # fmt: skip
