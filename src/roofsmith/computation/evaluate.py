"""What a graph means: its results in NumPy, node by node, for whoever checks a reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from roofsmith.computation import graph as g
from roofsmith.computation.sizes import Shape

Array = Any
"""A NumPy array; elements of bfloat16 are held as float32."""

UNARY: Mapping[str, Callable[[Array], Array]] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "round": np.rint, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "tanh": np.tanh, "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "not": np.logical_not, "bit_not": np.invert, "isnan": np.isnan, "isinf": np.isinf,
}  # fmt: skip
BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide,
    "floordiv": np.floor_divide, "mod": np.mod, "fmod": np.fmod, "pow": np.power,
    "min": np.minimum, "max": np.maximum, "atan2": np.arctan2, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
    "shift_left": np.left_shift, "shift_right": np.right_shift,
}  # fmt: skip
REDUCTIONS: Mapping[str, Callable[..., Array]] = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "argmax": np.argmax,
    "argmin": np.argmin, "any": np.any, "all": np.all,
}  # fmt: skip
COMBINED: Mapping[str, np.ufunc] = {
    "sum": np.add, "prod": np.multiply, "add": np.add, "mul": np.multiply, "max": np.maximum,
    "min": np.minimum,
}  # fmt: skip


def evaluate(
    graph: g.Graph, given: Mapping[str, Array], dims: Mapping[str, int]
) -> dict[str, Array]:
    """The graph's results for arrays and numbers by their names.

    Raises:
        NotImplementedError: A node is opaque.
    """
    values: list[Array] = []
    done = set[int]()
    for node in graph.nodes:
        with np.errstate(all="ignore"):
            if isinstance(node, g.Repeated) and node.loop not in done:
                done.add(node.loop)
                _repeat(graph, node.loop, values, given, dims)
            values.append(_value(node, values, given, dims))
    return {name: values[place] for name, place in graph.outputs.items()}


def _repeat(
    graph: g.Graph, loop: int, values: list[Array], given: Mapping[str, Array],
    dims: Mapping[str, int],
) -> None:  # fmt: skip
    """Iterations of a loop but the first, which was done; then what is carried is the last's."""
    node, body = graph.repeated()[loop], graph.body(loop)
    count = node.count.at(dims)
    for turn in range(count):
        moved = {begin: values[end] for begin, end in node.pairs}
        for place, value in moved.items():
            values[place] = value
        for place in body if turn < count - 1 else ():
            values[place] = _value(graph[place], values, given, dims)


def held(dtype: str) -> Any:
    """The NumPy dtype in which elements of that dtype are held."""
    return np.dtype("float32" if dtype == "bfloat16" else dtype)


def rounded(array: Array, dtype: str) -> Array:
    """An array of that dtype; bfloat16 keeps the upper 16 bits, rounded to even."""
    if dtype != "bfloat16":
        return np.asarray(array).astype(held(dtype), copy=False)
    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    kept = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(
        0xFFFF0000
    )
    return np.where(np.isnan(array), np.float32(np.nan), kept.view(np.float32)).reshape(
        np.shape(array)
    )


def _value(
    node: g.Node, values: list[Array], given: Mapping[str, Array], dims: Mapping[str, int]
) -> Array:
    shape = sizes(node.shape, dims)
    match node:
        case g.Input():
            return rounded(np.asarray(given[node.name]), node.dtype).reshape(shape)
        case g.Constant():
            return rounded(np.asarray(node.value), node.dtype)
        case g.Dimension():
            return np.asarray(node.size.at(dims)).astype(held(node.dtype))
        case g.Arange():
            return np.arange(shape[0]).astype(held(node.dtype))
        case g.Cast():
            return rounded(values[node.arg], node.dtype)
        case g.Elementwise():
            return rounded(_applied(node, [values[arg] for arg in node.args]), node.dtype)
        case g.View():
            return _viewed(node, values[node.arg], shape, dims)
        case g.Reshape():
            return values[node.arg].reshape(shape)
        case g.Pad():
            whole = np.full(shape, node.value, dtype=held(node.dtype))
            inner = values[node.arg]
            first = sizes(node.low, dims)
            whole[tuple(slice(a, a + n) for a, n in zip(first, inner.shape, strict=True))] = inner
            return whole
        case g.Concat():
            return np.concatenate([values[arg] for arg in node.args], axis=node.axis)
        case g.Reduce():
            along = node.axes[0] if node.op in {"argmax", "argmin"} else node.axes
            return rounded(REDUCTIONS[node.op](values[node.arg], axis=along), node.dtype)
        case g.Scan():
            return rounded(
                COMBINED[node.op].accumulate(values[node.arg], axis=node.axis), node.dtype
            )
        case g.Contract():
            spec = f"{node.left_axes},{node.right_axes}->{node.result_axes}"
            product = np.einsum(spec, values[node.left], values[node.right], optimize=True)
            return rounded(product, node.dtype)
        case g.Gather():
            return np.broadcast_to(
                values[node.arg][tuple(values[index] for index in node.indices)], shape
            )
        case g.Scatter():
            return _scattered(node, values)
        case g.CarriedValue():
            return values[node.arg]
        case g.Repeated():
            return values[node.pairs[node.which][0]]
        case g.Sort():
            return _sorted(node, values[node.arg])
        case _:
            raise NotImplementedError(f"{node} isn't known")


def _viewed(node: g.View, array: Array, shape: tuple[int, ...], dims: Mapping[str, int]) -> Array:
    """The same memory with other strides: windows of a large array take none of their own.

    Raises:
        IndexError: it would leave the array.
    """
    if 0 in shape:
        return np.empty(shape, array.dtype)
    first, steps = [], np.zeros(len(shape), dtype=np.int64)
    for part, size, step in zip(node.index, array.shape, array.strides, strict=True):
        moves = [stride.at(dims) for stride in part.strides]
        ends = [move * (count - 1) for move, count in zip(moves, shape, strict=True)]
        first.append(part.offset.at(dims))
        low, high = (first[-1] + sum(pick(end, 0) for end in ends) for pick in (min, max))
        if low < 0 or high >= size:
            raise IndexError(f"a view of {size} elements goes from {low} to {high}")
        steps += step * np.array(moves, dtype=np.int64)
    corner = array[tuple(slice(at, None) for at in first)]
    return np.lib.stride_tricks.as_strided(corner, shape, steps.tolist(), writeable=False)


def _applied(node: g.Elementwise, args: list[Array]) -> Array:
    if node.op == "where":
        return np.where(*args)
    if node.op in {"erf", "erfc"}:
        import math

        return np.vectorize(getattr(math, node.op), otypes=[np.float64])(args[0])
    return UNARY[node.op](*args) if len(args) == 1 else BINARY[node.op](*args)


def _scattered(node: g.Scatter, values: list[Array]) -> Array:
    result = np.array(values[node.arg])
    index = tuple(values[place] for place in node.indices)
    if node.op == "set":
        result[index] = values[node.updates]
    else:
        COMBINED[node.op].at(result, index, values[node.updates])
    return result


def _sorted(node: g.Sort, array: Array) -> Array:
    turned = np.flip(array, node.axis) if node.descending else array
    order = np.argsort(turned, axis=node.axis, kind="stable")
    if node.descending:
        order = np.flip(array.shape[node.axis] - 1 - order, node.axis)
    return order if node.order else np.take_along_axis(array, order, node.axis)


def sizes(shape: Shape, dims: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(size.at(dims) for size in shape)
