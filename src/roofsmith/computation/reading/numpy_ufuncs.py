"""NumPy's ufuncs as nodes: element by element, reduced, accumulated, and at indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from roofsmith.computation.graph import COMPARISONS, Id
from roofsmith.computation.reading import forms
from roofsmith.computation.reading.numpy_arrays import Traced, converted, fresh, lifted, sequence
from roofsmith.computation.reading.tape import Tape

PLAIN = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "floor_divide": "floordiv",
    "remainder": "mod", "fmod": "fmod", "power": "pow", "float_power": "pow", "minimum": "min",
    "maximum": "max", "arctan2": "atan2", "equal": "eq", "not_equal": "ne", "less": "lt",
    "less_equal": "le", "greater": "gt", "greater_equal": "ge", "bitwise_and": "bit_and",
    "bitwise_or": "bit_or", "bitwise_xor": "bit_xor", "invert": "bit_not",
    "left_shift": "shift_left", "right_shift": "shift_right", "negative": "neg", "absolute": "abs",
    "fabs": "abs", "sign": "sign", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "rint": "round", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan",
    "tanh": "tanh", "sinh": "sinh", "cosh": "cosh", "arcsin": "asin", "arccos": "acos",
    "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "erf": "erf",
    "erfc": "erfc", "isnan": "isnan", "isinf": "isinf",
}  # fmt: skip
"""Ufuncs, SciPy's among them, that are one node."""
LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor", "logical_not": "not"}
OF_BOOLS = {
    "add": "or", "mul": "and", "max": "or", "min": "and", "bit_and": "and", "bit_or": "or",
    "bit_xor": "xor", "bit_not": "not",
}  # fmt: skip
"""What these are where the operands are booleans."""
REDUCED = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all",
    "logical_or": "any", "fmax": "max", "fmin": "min",
}  # fmt: skip
AT = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}

Composed = Callable[[Tape, str, Sequence[Id]], Id]


def _constant(tape: Tape, like: Id, value: float) -> Id:
    return tape.builder.constant(value, tape.builder[like].dtype)


def _scaled(factor: float) -> Composed:
    return lambda t, _, a: t.builder.apply("mul", a[0], _constant(t, a[0], factor))


def _finite(tape: Tape, _: str, args: Sequence[Id]) -> Id:
    b = tape.builder
    off = b.apply("or", b.apply("isnan", args[0]), b.apply("isinf", args[0]))
    return b.apply("not", off)


def _without_nan(op: str) -> Composed:
    def made(tape: Tape, _: str, args: Sequence[Id]) -> Id:
        b, (x, y) = tape.builder, args
        if not b[x].dtype.startswith(("float", "bfloat")):
            return b.apply(op, x, y)
        both = b.apply("where", b.apply("isnan", y), x, b.apply(op, x, y))
        return b.apply("where", b.apply("isnan", x), y, both)

    return made


def _log_add(tape: Tape, _: str, args: Sequence[Id]) -> Id:
    b, (x, y) = tape.builder, args
    high = b.apply("max", x, y)
    low = b.apply("neg", b.apply("abs", b.apply("sub", x, y)))
    return b.apply("add", high, b.apply("log1p", b.apply("exp", low)))


def _sigmoid(tape: Tape, _: str, args: Sequence[Id]) -> Id:
    b = tape.builder
    one = _constant(tape, args[0], 1)
    return b.apply("div", one, b.apply("add", one, b.apply("exp", b.apply("neg", args[0]))))


def _heaviside(tape: Tape, _: str, args: Sequence[Id]) -> Id:
    b, (x, y) = tape.builder, args
    zero = _constant(tape, x, 0)
    above = b.cast(b.apply("gt", x, zero), b[x].dtype)
    return b.apply("where", b.apply("eq", x, zero), y, above)


def _copysign(tape: Tape, _: str, args: Sequence[Id]) -> Id:
    b, (x, y) = tape.builder, args
    size = b.apply("abs", x)
    below = b.apply("lt", y, _constant(tape, y, 0))
    return b.apply("where", below, b.apply("neg", size), size)


COMPOSED: dict[str, Composed] = {
    "square": lambda t, _, a: t.builder.apply("mul", a[0], a[0]),
    "reciprocal": lambda t, _, a: t.builder.apply("div", _constant(t, a[0], 1), a[0]),
    "positive": lambda _t, _, a: a[0], "conjugate": lambda _t, _, a: a[0],
    "deg2rad": _scaled(math.pi / 180), "radians": _scaled(math.pi / 180),
    "rad2deg": _scaled(180 / math.pi), "degrees": _scaled(180 / math.pi),
    "hypot": lambda t, _, a: t.builder.apply("sqrt", t.builder.apply(
        "add", t.builder.apply("mul", a[0], a[0]), t.builder.apply("mul", a[1], a[1]))),
    "clip": lambda t, _, a: t.builder.apply("min", t.builder.apply("max", a[0], a[1]), a[2]),
    "fmax": _without_nan("max"), "fmin": _without_nan("min"), "isfinite": _finite,
    "logaddexp": _log_add, "expit": _sigmoid, "heaviside": _heaviside, "copysign": _copysign,
}  # fmt: skip


def applied(tape: Tape, ufunc: Any, args: Sequence[Any]) -> Traced:
    arrays = [None if _is_weak(arg) else lifted(tape, arg) for arg in args]
    with np.errstate(all="ignore"):
        real = ufunc(
            *(plain(arg) if one is None else one.weak(one.real) if one.weak else one.real
              for arg, one in zip(args, arrays, strict=True))
        )  # fmt: skip
    if isinstance(real, tuple):
        raise tape.refuse(f"{ufunc.__name__} has several results")
    name = ufunc.__name__
    kinds = [type(arg) if one is None else one.weak or one.dtype
             for arg, one in zip(args, arrays, strict=True)]  # fmt: skip
    is_weak = all(isinstance(kind, type) for kind in kinds)
    kinds = [
        float if kind not in (int, bool) and isinstance(kind, type) else kind for kind in kinds
    ]
    kinds = [np.dtype(bool) if kind is bool else kind for kind in kinds]
    loop = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))
    nodes = [
        tape.number(arg, of.name) if one is None else (
            one.node if name in LOGICAL else converted(tape, one.node, of.name)
        )
        for arg, one, of in zip(args, arrays, loop, strict=False)
    ]  # fmt: skip
    node = _elementwise(tape, name, nodes, args)
    node = tape.builder.cast(node, np.asarray(real).dtype.name)
    node = forms.broadcast_to(tape.builder, node, np.shape(real))
    made = fresh(tape, node, real, given=any(one.given for one in arrays if one is not None))
    if is_weak and np.asarray(real).dtype != np.bool_:
        made.weak = float if np.asarray(real).dtype.kind == "f" else int
    return made


def _is_weak(value: Any) -> bool:
    """Whether it takes the other operand's type: Python's own numbers, given ones among them."""
    return isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)


def plain(value: Any) -> Any:
    """A given float as Python's own: NumPy takes classes made of it for float64."""
    return float(value) if isinstance(value, float) else value


def _elementwise(tape: Tape, name: str, nodes: Sequence[Id], args: Sequence[Any]) -> Id:
    b = tape.builder
    if name in LOGICAL:
        return b.apply(LOGICAL[name], *(converted(tape, node, "bool") for node in nodes))
    if name in COMPOSED:
        return COMPOSED[name](tape, name, nodes)
    if name == "power" and type(args[1]) in (int, float):
        return powered(tape, nodes[0], args[1], nodes[1])
    if name not in PLAIN:
        raise tape.refuse(f"{name} isn't read")
    op = PLAIN[name]
    if op not in COMPARISONS and b[nodes[0]].dtype == "bool":
        op = OF_BOOLS.get(op, op)
    return b.apply(op, *nodes)


def powered(tape: Tape, x: Id, exponent: float, node: Id) -> Id:
    """A power; small ones are products, with a root for a half, and quotients below zero."""
    b = tape.builder
    size, is_wide = abs(exponent), b[x].dtype in ("float32", "float64")
    is_whole = exponent > 0 and size % 1 == 0
    if 0 < size <= 4 and (is_whole or exponent == 0.5 or (is_wide and size % 0.5 == 0)):
        factors = [*[x] * int(size), *[b.apply("sqrt", x)] * (size % 1 > 0)]
        found = reduce(partial(b.apply, "mul"), factors)
        return found if exponent > 0 else b.apply("div", b.constant(1, b[x].dtype), found)
    return b.apply("pow", x, node)


def ufunc(tape: Tape, function: Any, method: str, args: Any, options: Any) -> Any:
    """What `__array_ufunc__` is asked."""
    out, where = options.pop("out", (None,)), options.pop("where", True)
    dtype = options.pop("dtype", None)
    options.pop("casting", None)
    if method == "__call__":
        if function.__name__ in ("matmul", "vecdot", "matvec", "vecmat"):
            result = product(tape, function, *args)
        else:
            given = [lifted(tape, arg).astype(dtype) for arg in args] if dtype else args
            result = applied(tape, function, given)
    elif method == "reduce":
        axis, keeps = options.get("axis", 0), options.get("keepdims", False)
        result = reduced(tape, function, args[0], axis, keeps=keeps, dtype=dtype)
        if options.get("initial") is not None and function.__name__ in REDUCED:
            result = applied(tape, function, (result, options["initial"]))
    elif method == "accumulate":
        result = accumulated(tape, function, args[0], options.get("axis", 0), dtype)
    elif method == "outer":
        left, right = lifted(tape, args[0]), lifted(tape, args[1])
        result = applied(tape, function, (left[(..., *(None,) * right.ndim)], right))
    elif method == "at" and function.__name__ in AT:
        return Traced.functions["at"](tape, AT[function.__name__], function, *args)
    else:
        raise tape.refuse(f"numpy.{function.__name__}.{method} isn't read")
    return _stored(tape, result, out[0] if isinstance(out, tuple) else out, where)


def _stored(tape: Tape, result: Traced, out: Any, where: Any) -> Any:
    """Where the result is wanted, for the elements that are wanted."""
    if out is None:
        return result
    if not isinstance(out, Traced):
        raise tape.refuse("an output that isn't traced")
    if where is not True:
        result = Traced.functions[np.where](tape, where, result, out)
    out[...] = result
    return out


def reduced(
    tape: Tape, function: Any, array: Any, axis: Any, *, keeps: bool = False, dtype: Any = None
) -> Traced:
    """Along some axes, in the type that NumPy does it in."""
    x = lifted(tape, array)
    if function.__name__ not in REDUCED:
        raise tape.refuse(f"numpy.{function.__name__}.reduce isn't read")
    axes = sequence(axis, x.ndim)
    op = REDUCED[function.__name__]
    with np.errstate(all="ignore"):
        where = None if axis is None else tuple(axes)
        more = {} if op in ("any", "all") or dtype is None else {"dtype": dtype}
        real = np.asarray(function.reduce(x.real, axis=where, keepdims=keeps, **more))
    node = converted(tape, x.node, real.dtype.name)
    if real.dtype == np.bool_:
        op = {"sum": "any", "prod": "all", "max": "any", "min": "all"}.get(op, op)
    return x.made(forms.reduced(tape.builder, op, node, axes, keeps=keeps), real)


def accumulated(tape: Tape, function: Any, array: Any, axis: Any, dtype: Any = None) -> Traced:
    x = lifted(tape, array)
    if axis is None:
        x, axis = x.ravel(), 0
    with np.errstate(all="ignore"):
        real = function.accumulate(x.real, axis=axis, dtype=dtype)
    if function.__name__ not in ("add", "multiply", "maximum", "minimum"):
        raise tape.refuse(f"numpy.{function.__name__}.accumulate isn't read")
    node = converted(tape, x.node, real.dtype.name)
    return x.made(tape.builder.scan(REDUCED[function.__name__], node, axis), real)


def product(tape: Tape, function: Any, left: Any, right: Any) -> Traced:
    """`@` and its like."""
    x, y = lifted(tape, left), lifted(tape, right)
    real = np.asarray(function(x.real, y.real))
    dtype = real.dtype.name
    if function.__name__ == "vecdot":
        return reduced(tape, np.add, applied(tape, np.multiply, (x, y)), -1)
    nodes = [converted(tape, one.node, dtype) for one in (x, y)]
    b = tape.builder
    if function.__name__ == "matvec":
        nodes[1] = forms.expand(b, nodes[1], -1)
    if function.__name__ == "vecmat":
        nodes[0] = forms.expand(b, nodes[0], -2)
    node = forms.reshape(b, forms.matmul(b, nodes[0], nodes[1], dtype), real.shape)
    return fresh(tape, node, real, given=x.given or y.given)


Traced.ufunc = staticmethod(ufunc)
