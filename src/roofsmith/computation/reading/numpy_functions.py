"""NumPy's functions on traced arrays: sums, products, shapes, sorting, selection."""

# ruff: noqa: ARG005 - signatures are NumPy's
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy

from roofsmith.computation.reading import forms
from roofsmith.computation.reading.numpy_arrays import Traced, fresh, lifted, sequence
from roofsmith.computation.reading.numpy_indexing import at
from roofsmith.computation.reading.numpy_ufuncs import accumulated, applied, plain, reduced
from roofsmith.computation.reading.tape import Tape
from roofsmith.computation.sizes import Size

np: Any = numpy
"""As it takes traced arrays, which its types don't know."""

FUNCTIONS: dict[Any, Callable[..., Any]] = {None: lambda t, f, a, o: unknown(t, f, a, o), "at": at}


def reads(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(made: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS.update(dict.fromkeys(functions, made))
        return made

    return register


def unknown(tape: Tape, function: Any, args: Any, options: Any) -> Any:
    """A function that nobody reads: an opaque node."""
    name = f"{function.__module__}.{function.__name__}"
    traced = [lifted(tape, one) for one in args if isinstance(one, (Traced, np.ndarray))]

    def plain(one: Any) -> Any:
        if isinstance(one, (list, tuple)):
            return type(one)(map(plain, one))
        return one.real if isinstance(one, Traced) else one

    with np.errstate(all="ignore"):
        real = function(*map(plain, args), **{k: plain(v) for k, v in options.items()})
    if not isinstance(real, (np.ndarray, np.generic)) or not traced:
        raise tape.refuse(f"{name} isn't read")
    shape = tuple(map(Size.of, real.shape))
    node = tape.builder.opaque(
        name, [one.node for one in traced], tape.line(), shape, real.dtype.name
    )
    return fresh(tape, node, real, given=True)


def stored(result: Traced, out: Any) -> Any:
    """A result, in `out` where that is given."""
    if out is None:
        return result
    out[...] = result
    return out


def _reducer(function: Any) -> Callable[..., Any]:
    def read(
        tape: Tape, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
        keepdims: Any = False, initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        x = lifted(tape, a)
        if where is not True:
            rest = function.identity if initial is None else initial
            x = FUNCTIONS[np.where](tape, where, x, x.dtype.type(rest))
        keeps = keepdims is True
        result = reduced(tape, function, x, axis, keeps=keeps, dtype=dtype)
        if isinstance(initial, (int, float)):
            result = applied(tape, function, (result, initial))
        return stored(result, out)

    return read


def _extreme(function: Any) -> Callable[..., Any]:
    inner = _reducer(function)

    def read(
        tape: Tape, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        initial = None if initial is np._NoValue else initial
        where = True if where is np._NoValue else where
        return inner(tape, a, axis, None, out, keepdims, initial, where)

    return read


def _summing(function: Any) -> Callable[..., Any]:
    inner = _reducer(function)

    def read(
        tape: Tape, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
        keepdims: Any = False, initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        initial = None if initial is np._NoValue else initial
        where = True if where is np._NoValue else where
        return inner(tape, a, axis, dtype, out, keepdims, initial, where)

    return read


FUNCTIONS.update({
    np.sum: _summing(np.add), np.prod: _summing(np.multiply), np.max: _extreme(np.maximum),
    np.amax: _extreme(np.maximum), np.min: _extreme(np.minimum), np.amin: _extreme(np.minimum),
    np.any: _extreme(np.logical_or), np.all: _extreme(np.logical_and),
    np.cumsum: lambda t, a, axis=None, dtype=None, out=None: stored(
        accumulated(t, np.add, a, axis, dtype), out),
    np.cumprod: lambda t, a, axis=None, dtype=None, out=None: stored(
        accumulated(t, np.multiply, a, axis, dtype), out),
    np.ptp: lambda t, a, axis=None, **_: np.max(a, axis=axis) - np.min(a, axis=axis),
    np.count_nonzero: lambda t, a, axis=None, **o: np.sum(a != 0, axis=axis, dtype=np.int64, **o),
    np.trace: lambda t, a, offset=0, axis1=0, axis2=1, **_: np.sum(
        np.diagonal(a, offset, axis1, axis2), axis=-1),
    np.square: lambda t, a: a * a,
    np.round: lambda t, a, decimals=0, out=None: stored(_rounded(t, a, decimals), out),
})  # fmt: skip


def _known(function: Any) -> Callable[..., Any]:
    """Reads the same function's other name."""
    return FUNCTIONS[function]


@reads(np.mean)
def _mean(
    tape: Tape, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
    **_: Any,
) -> Any:  # fmt: skip
    x = lifted(tape, a)
    x = x.astype(dtype) if dtype is not None else x if x.dtype.kind == "f" else x.astype("float64")
    axes, keeps = sequence(axis, x.ndim), keepdims is True
    real = np.mean(x.real, axis=None if axis is None else tuple(axes), keepdims=keeps)
    node = forms.mean(tape.builder, x.node, axes, keeps=keeps)
    return stored(x.made(node, real), out)


def _spread(tape: Tape, a: Any, axis: Any, keepdims: Any, ddof: int) -> Traced:
    x = lifted(tape, a)
    x = x if x.dtype.kind == "f" else x.astype("float64")
    axes, keeps = sequence(axis, x.ndim), keepdims is True
    real = np.var(x.real, axis=None if axis is None else tuple(axes), keepdims=keeps, ddof=ddof)
    return x.made(forms.variance(tape.builder, x.node, axes, keeps=keeps, less=ddof), real)


@reads(np.var)
def _var(
    tape: Tape, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = False, correction: Any = None, **_: Any,
) -> Any:  # fmt: skip
    a = a if dtype is None else lifted(tape, a).astype(dtype)
    less = ddof if correction in (None, np._NoValue) else correction
    return stored(_spread(tape, a, axis, keepdims, less), out)


@reads(np.std)
def _std(tape: Tape, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
         keepdims: Any = False, correction: Any = None, **_: Any) -> Any:  # fmt: skip
    return stored(np.sqrt(_var(tape, a, axis, dtype, None, ddof, keepdims, correction)), out)


_BITS = 1 << np.arange(8, dtype=np.uint8)
"""Of a byte, the least first."""


@reads(np.packbits)
def _packbits(tape: Tape, a: Any, axis: Any = None, bitorder: str = "big") -> Any:
    x = np.ravel(a) if axis is None else np.moveaxis(a, axis, -1)
    rest = [(0, 0)] * (x.ndim - 1)
    x = np.pad(lifted(tape, x != 0).astype(np.uint8), [*rest, (0, -x.shape[-1] % 8)])
    weights = _BITS if bitorder == "little" else _BITS[::-1]
    bytes_ = np.sum(x.reshape(*x.shape[:-1], -1, 8) * weights, axis=-1, dtype=np.uint8)
    return np.moveaxis(bytes_, -1, 0 if axis is None else axis)


@reads(np.unpackbits)
def _unpackbits(
    tape: Tape, a: Any, axis: Any = None, count: Any = None, bitorder: str = "big"
) -> Any:
    x = np.ravel(a) if axis is None else np.moveaxis(a, axis, -1)
    weights = _BITS if bitorder == "little" else _BITS[::-1]
    bits = lifted(tape, (x[..., None] & weights) != 0).astype(np.uint8)
    bits = bits.reshape(*x.shape[:-1], -1)[..., :count]
    return np.moveaxis(bits, -1, 0 if axis is None else axis)


@reads(np.argmax)
def _argmax(tape: Tape, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    return stored(_chosen(tape, "argmax", np.argmax, a, axis, keeps=keepdims is True), out)


@reads(np.argmin)
def _argmin(tape: Tape, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    return stored(_chosen(tape, "argmin", np.argmin, a, axis, keeps=keepdims is True), out)


def _chosen(tape: Tape, op: str, function: Any, a: Any, axis: Any, *, keeps: bool) -> Traced:
    x = lifted(tape, a)
    if axis is None:
        x, axis = np.ravel(x), 0
    node = forms.reduced(tape.builder, op, x.node, [axis], keeps=keeps)
    return x.made(node, np.asarray(function(x.real, axis=axis, keepdims=keeps)))


@reads(np.where)
def _where(tape: Tape, condition: Any, *branches: Any) -> Any:
    if len(branches) != 2:
        found = np.nonzero(lifted(tape, condition).known("where() of a computed mask"))
        return tuple(lifted(tape, one) for one in found)
    mask = lifted(tape, condition).astype(bool)
    weak = [isinstance(one, (int, float)) and not isinstance(one, np.generic) for one in branches]
    kinds = [plain(one) if is_weak else lifted(tape, one).dtype
             for one, is_weak in zip(branches, weak, strict=True)]  # fmt: skip
    dtype = np.result_type(*kinds)
    sides = [
        fresh(tape, tape.number(one, dtype.name), dtype.type(one), given=False)
        if is_weak
        else lifted(tape, one).astype(dtype)
        for one, is_weak in zip(branches, weak, strict=True)
    ]
    real = np.where(mask.real, sides[0].real, sides[1].real)
    b = tape.builder
    node = b.apply("where", mask.node, sides[0].node, sides[1].node)
    given = mask.given or any(one.given for one in sides)
    return fresh(tape, forms.broadcast_to(b, node, real.shape), real, given=given)


@reads(np.clip)
def _clip(tape: Tape, a: Any, a_min: Any = None, a_max: Any = None, out: Any = None,
          **options: Any) -> Any:  # fmt: skip
    low, high = options.get("min", a_min), options.get("max", a_max)
    if low is not None and low is not np._NoValue:
        a = applied(tape, np.maximum, (a, low))
    if high is not None and high is not np._NoValue:
        a = applied(tape, np.minimum, (a, high))
    return stored(lifted(tape, a), out)


@reads(np.nan_to_num)
def _nan_to_num(tape: Tape, x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None,
                neginf: Any = None) -> Any:  # fmt: skip
    del copy
    limits = np.finfo(x.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    found = _where(tape, np.isnan(x), nan, x)
    found = _where(tape, found == np.inf, high, found)
    return _where(tape, found == -np.inf, low, found)


for _plain, _wide, _rest in (
    (np.nansum, np.sum, 0.0), (np.nanmax, np.max, -np.inf), (np.nanmin, np.min, np.inf),
):  # fmt: skip
    FUNCTIONS[_plain] = lambda tape, a, axis=None, _wide=_wide, _rest=_rest, **options: _wide(
        _where(tape, np.isnan(a), _rest, a), axis=axis, **options
    )


def _rounded(tape: Tape, a: Any, decimals: int) -> Any:
    x = lifted(tape, a)
    if not decimals or x.dtype.kind != "f":
        return np.rint(x) if x.dtype.kind == "f" else x
    return np.rint(x * 10.0**decimals) / 10.0**decimals


@reads(np.sort)
def _sort(tape: Tape, a: Any, axis: Any = -1, **_: Any) -> Traced:
    return _sorted(tape, a, axis, order=False)


@reads(np.argsort)
def _argsort(tape: Tape, a: Any, axis: Any = -1, **_: Any) -> Traced:
    return _sorted(tape, a, axis, order=True)


def _sorted(tape: Tape, a: Any, axis: Any, *, order: bool) -> Traced:
    x = lifted(tape, a)
    if axis is None:
        x, axis = np.ravel(x), 0
    function = np.argsort if order else np.sort
    return x.made(
        tape.builder.sort(x.node, axis, order=order), function(x.real, axis=axis, kind="stable")
    )


@reads(np.partition)
def _partition(tape: Tape, a: Any, _kth: Any = None, axis: Any = -1, **_: Any) -> Traced:
    """Sorted rows are partitioned at every place; where another order shows, numbers differ."""
    return _sorted(tape, a, axis, order=False)


@reads(np.median)
def _median(tape: Tape, a: Any, axis: Any = None, keepdims: bool = False, **_: Any) -> Any:
    x = _sorted(tape, a, axis, order=False)
    axis = 0 if axis is None else axis % x.ndim
    count = x.shape[axis]
    key = (slice(None),) * axis
    low, high = (x[(*key, slice(at, at + 1))] for at in ((count - 1) // 2, count // 2))
    found = (low + high) / 2  # of an odd number the same one twice, so that one graph has both
    return found if keepdims else np.squeeze(found, axis=axis)


@reads(np.take)
def _take(tape: Tape, a: Any, indices: Any, axis: Any = None, out: Any = None, **_: Any) -> Any:
    x = lifted(tape, a)
    if axis is None:
        x, axis = np.ravel(x), 0
    places = lifted(tape, indices)
    return stored(x[(*(slice(None),) * (axis % x.ndim), places)], out)


def _along(tape: Tape, x: Traced, indices: Any, axis: int) -> tuple[Any, ...]:
    places = lifted(tape, indices)
    shape = places.shape
    return tuple(
        places if at == axis % x.ndim else lifted(
            tape, np.arange(n).reshape([n if k == at else 1 for k in range(x.ndim)]))
        for at, n in enumerate(shape)
    )  # fmt: skip


@reads(np.take_along_axis)
def _take_along(tape: Tape, arr: Any, indices: Any, axis: Any = -1) -> Any:
    x = lifted(tape, arr)
    return x[_along(tape, x, indices, axis)]


@reads(np.put_along_axis)
def _put_along(tape: Tape, arr: Any, indices: Any, values: Any, axis: Any) -> None:
    arr[_along(tape, arr, indices, axis)] = values


@reads(np.bincount)
def _bincount(tape: Tape, x: Any, weights: Any = None, minlength: int = 0) -> Any:
    places = lifted(tape, x)
    count = len(np.bincount(places.real, minlength=minlength))
    if places.given and count > minlength:
        raise tape.refuse("bincount of computed values without a minlength that holds them")
    dtype = np.dtype("int64" if weights is None else "float64")
    total = fresh(tape, forms.full(tape.builder, (count,), tape.builder.constant(0, dtype.name)),
                  np.zeros(count, dtype), given=False)  # fmt: skip
    at(tape, "add", np.add, total, places, 1 if weights is None else weights)
    return total


@reads(np.diff)
def _diff(tape: Tape, a: Any, n: int = 1, axis: int = -1, **_: Any) -> Any:
    x = lifted(tape, a)
    key = (slice(None),) * (axis % x.ndim)
    for _step in range(n):
        x = x[(*key, slice(1, None))] - x[(*key, slice(None, -1))]
    return x


@reads(np.lib.stride_tricks.sliding_window_view)
def _windows(tape: Tape, x: Any, window_shape: Any, axis: Any = None, **_: Any) -> Traced:
    array = lifted(tape, x)
    sizes = [window_shape] if isinstance(window_shape, int) else list(window_shape)
    axes = list(sequence(axis, array.ndim))
    real = np.lib.stride_tricks.sliding_window_view(array.real, sizes, tuple(axes))
    ones = [1] * len(sizes)
    return array.made(forms.windows(tape.builder, array.node, axes, sizes, ones, ones), real)


@reads(np.copyto)
def _copyto(tape: Tape, dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    del casting
    dst[...] = src if where is True else _where(tape, where, src, dst)


@reads(np.select)
def _select(tape: Tape, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    found = default
    for mask, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = _where(tape, mask, choice, found)
    return found


@reads(np.apply_along_axis)
def _apply_along(tape: Tape, func1d: Any, axis: int, arr: Any, *args: Any, **options: Any) -> Any:
    x = np.moveaxis(lifted(tape, arr), axis, -1)
    rows = [func1d(x[at], *args, **options)
            for at in itertools.product(*map(range, x.shape[:-1]))]  # fmt: skip
    made = np.stack([lifted(tape, row) for row in rows])
    return np.moveaxis(np.reshape(made, x.shape[:-1] + made.shape[1:]), -1, axis)


Traced.functions = FUNCTIONS
