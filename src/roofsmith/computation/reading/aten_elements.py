"""ATen's operations on each element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from roofsmith.computation.graph import Id
from roofsmith.computation.reading import forms
from roofsmith.computation.reading.aten import TABLE, Converter, NodePlace, reads
from roofsmith.computation.reading.numpy_ufuncs import OF_BOOLS, powered

UNARY = {
    "neg": "neg", "abs": "abs", "sign": "sign", "sgn": "sign", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "fix": "trunc", "round": "round", "exp": "exp", "exp2": "exp2",
    "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "cos", "tan": "tan", "tanh": "tanh",
    "sinh": "sinh", "cosh": "cosh", "asin": "asin", "acos": "acos", "atan": "atan",
    "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "erf": "erf", "erfc": "erfc",
    "bitwise_not": "bit_not",
}  # fmt: skip
BINARY = {
    "mul": "mul", "minimum": "min", "maximum": "max", "atan2": "atan2", "fmod": "fmod",
    "remainder": "mod", "floor_divide": "floordiv", "bitwise_and": "bit_and",
    "bitwise_or": "bit_or", "bitwise_xor": "bit_xor", "__and__": "bit_and", "__or__": "bit_or",
    "__xor__": "bit_xor", "bitwise_left_shift": "shift_left", "__lshift__": "shift_left",
    "bitwise_right_shift": "shift_right", "__rshift__": "shift_right",
}  # fmt: skip
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}


def spread(c: Converter, node: Id) -> Id:
    """A result of the shape that PyTorch gives it."""
    return forms.broadcast_to(c.b, node, c.shape)


def _unary(op: str) -> Callable[..., Id]:
    def read(c: Converter, x: NodePlace, **options: Any) -> Id:
        if options.get("decimals"):
            raise c.tape.refuse("round to decimals isn't read")
        dtype = c.dtype
        name = OF_BOOLS.get(op, op) if dtype == "bool" else op
        return c.b.apply(name, c.cast(x, dtype))

    return read


def _binary(op: str) -> Callable[..., Id]:
    def read(c: Converter, x: Any, y: Any) -> Id:
        dtype = c.dtype
        name = OF_BOOLS.get(op, op) if dtype == "bool" else op
        return spread(c, c.b.apply(name, c.of(x, dtype), c.of(y, dtype)))

    return read


def _compared(op: str) -> Callable[..., Id]:
    def read(c: Converter, x: Any, y: Any) -> Id:
        dtype = c.promoted(0, 1)
        return spread(c, c.b.apply(op, c.of(x, dtype), c.of(y, dtype)))

    return read


def _logical(op: str) -> Callable[..., Id]:
    return lambda c, x, y: spread(c, c.b.apply(op, c.of(x, "bool"), c.of(y, "bool")))


TABLE.update({name: _unary(op) for name, op in UNARY.items()})
TABLE.update({name: _binary(op) for name, op in BINARY.items()})
TABLE.update({name: _compared(name) for name in COMPARED})
TABLE.update({name: _logical(op) for name, op in LOGICAL.items()})


@reads("add", "sub", "rsub")
def _sum(c: Converter, x: Any, y: Any, alpha: Any = 1) -> Id:
    dtype, name = c.dtype, str(c.node.target).split(".")[1]
    if name == "rsub":
        x, y = y, x
    left, right = c.of(x, dtype), c.of(y, dtype)
    if alpha != 1:
        right = c.b.apply("mul", right, c.of(alpha, dtype))
    if dtype == "bool":
        return spread(c, c.b.apply("or", left, right))
    return spread(c, c.b.apply("add" if name == "add" else "sub", left, right))


@reads("div", "true_divide")
def _div(c: Converter, x: Any, y: Any, rounding_mode: str | None = None) -> Id:
    dtype = c.dtype
    left, right = c.of(x, dtype), c.of(y, dtype)
    if rounding_mode == "floor":
        return spread(c, c.b.apply("floordiv", left, right))
    if rounding_mode == "trunc" and not dtype.startswith(("float", "bfloat")):
        rest = c.b.apply("sub", left, c.b.apply("fmod", left, right))
        return spread(c, c.b.apply("floordiv", rest, right))
    made = c.b.apply("div", left, right)
    return spread(c, c.b.apply("trunc", made) if rounding_mode == "trunc" else made)


@reads("pow")
def _pow(c: Converter, x: Any, y: Any) -> Id:
    dtype = c.dtype
    exponent = y if not isinstance(y, NodePlace) else math.nan
    return spread(c, powered(c.tape, c.of(x, dtype), exponent, c.of(y, dtype)))


@reads("square")
def _square(c: Converter, x: NodePlace) -> Id:
    return c.b.apply("mul", x, x)


@reads("reciprocal")
def _reciprocal(c: Converter, x: NodePlace) -> Id:
    x = NodePlace(c.cast(x, c.dtype))
    return c.b.apply("div", c.b.constant(1.0, c.dtype), x)


@reads("sigmoid")
def _sigmoid(c: Converter, x: NodePlace) -> Id:
    b, dtype = c.b, c.dtype
    wide = "float32" if dtype in forms.HALVES else dtype
    one, x = b.constant(1.0, wide), NodePlace(c.cast(x, wide))
    return b.cast(
        b.apply("div", one, b.apply("add", one, b.apply("exp", b.apply("neg", x)))), dtype
    )


@reads("relu")
def _relu(c: Converter, x: NodePlace) -> Id:
    return c.b.apply("max", x, c.of(0, c.dtype))


@reads("logical_not")
def _logical_not(c: Converter, x: NodePlace) -> Id:
    return c.b.apply("not", c.cast(x, "bool"))


@reads("isnan", "isinf")
def _is_odd(c: Converter, x: NodePlace) -> Id:
    return c.b.apply(str(c.node.target).split(".")[1], x)


@reads("clamp", "clamp_min", "clamp_max", "clip")
def _clamp(c: Converter, x: NodePlace, first: Any = None, second: Any = None, **o: Any) -> Id:
    name = str(c.node.target).split(".")[1]
    low, high = (None, first) if name == "clamp_max" else (first, second)
    low, high = o.get("min", low), o.get("max", high)
    node = c.cast(x, c.dtype)
    if low is not None:
        node = c.b.apply("max", node, c.of(low, c.dtype))
    if high is not None:
        node = c.b.apply("min", node, c.of(high, c.dtype))
    return spread(c, node)


@reads("fmin", "fmax")
def _without_nan(c: Converter, x: NodePlace, y: NodePlace) -> Id:
    b, dtype = c.b, c.dtype
    left, right = c.of(x, dtype), c.of(y, dtype)
    op = "min" if str(c.node.target).split(".")[1] == "fmin" else "max"
    if not dtype.startswith(("float", "bfloat")):
        return spread(c, b.apply(op, left, right))
    both = b.apply("where", b.apply("isnan", right), left, b.apply(op, left, right))
    return spread(c, b.apply("where", b.apply("isnan", left), right, both))


@reads("where")
def _where(c: Converter, mask: NodePlace, x: Any, y: Any) -> Id:
    dtype = c.dtype
    return spread(c, c.b.apply("where", c.cast(mask, "bool"), c.of(x, dtype), c.of(y, dtype)))


@reads("masked_fill")
def _masked_fill(c: Converter, x: NodePlace, mask: NodePlace, value: Any) -> Id:
    found: Id = _where(c, mask, value, x)
    return found


@reads("_to_copy", "convert_element_type", "to")
def _cast(c: Converter, x: NodePlace, *_: Any, **__: Any) -> Id:
    return c.cast(x, c.dtype)


@reads("clone", "alias", "detach", "lift_fresh", "contiguous", "positive", "view_of", "conj",
       "broadcast_in_dim_", "_conj", "copy_to")  # fmt: skip
def _same(c: Converter, x: NodePlace, *_: Any, **__: Any) -> Id:
    del c
    return x


@reads("copy", "copy_")
def _copied(c: Converter, x: NodePlace, source: Any, *_: Any, **__: Any) -> Id:
    del x
    return spread(c, c.of(source, c.dtype))


@reads("fill", "full_like", "zeros_like", "ones_like", "empty_like", "full", "zeros", "ones",
       "empty", "new_zeros", "new_ones", "new_full", "new_empty", "scalar_tensor", "empty_strided",
       "new_empty_strided", "empty_permuted", "lift_fresh_number")  # fmt: skip
def _filled(c: Converter, *args: Any, **options: Any) -> Id:
    name = str(c.node.target).split(".")[1]
    value: Any = 1 if "ones" in name else 0
    if name in ("full", "full_like", "new_full", "fill"):
        value = args[-1] if len(args) > 1 else options.get("fill_value", options.get("value", 0))
    if name == "scalar_tensor":
        value = args[0]
    return spread(c, c.of(value, c.dtype))


@reads("arange")
def _arange(c: Converter, *args: Any, **_: Any) -> Id:
    from roofsmith.computation.reading.numpy_arrays import progression

    start, step = (args[0] if len(args) > 1 else 0), (args[2] if len(args) > 2 else 1)
    return progression(c.tape, start, step, c.shape[0], c.dtype)


@reads("iota")
def _iota(c: Converter, length: int, *, start: int = 0, step: int = 1, **_: Any) -> Id:
    from roofsmith.computation.reading.numpy_arrays import progression

    return progression(c.tape, start, step, length, c.dtype)


@reads("eye")
def _eye(c: Converter, *_: Any, **__: Any) -> Id:
    rows, columns = (forms.places(c.b, c.shape, axis) for axis in (0, 1))
    return c.cast(c.b.apply("eq", rows, columns), c.dtype)


@reads("tril", "triu")
def _triangle(c: Converter, x: NodePlace, diagonal: int = 0) -> Id:
    b, shape = c.b, c.shape
    rows, columns = (forms.places(b, shape, axis) for axis in (len(shape) - 2, len(shape) - 1))
    if diagonal:
        rows = b.apply("add", rows, b.dimension(diagonal))
    op = "le" if str(c.node.target).split(".")[1] == "tril" else "ge"
    return b.apply("where", b.apply(op, columns, rows), x, c.of(0, c.dtype))
