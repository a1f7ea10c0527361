"""ATen's sums, extremes, products of matrices, sorting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from roofsmith.computation.graph import Id
from roofsmith.computation.reading import forms
from roofsmith.computation.reading.aten import TABLE, Converter, NodePlace, reads

Axes = Any
"""None, one, or several."""


def axes_of(c: Converter, x: NodePlace, axes: Axes) -> list[int]:
    """Which axes are meant; none is all."""
    rank = len(c.b.shape(x))
    if axes is None or (isinstance(axes, (list, tuple)) and not axes):
        return list(range(rank))
    return [axis % max(1, rank) for axis in ([axes] if isinstance(axes, int) else axes)][
        : max(rank, 0)
    ]


def _reduced(op: str) -> Callable[..., Id]:
    def read(c: Converter, x: NodePlace, axes: Axes = None, keeps: bool = False, **o: Any) -> Id:
        axes, keeps = o.get("dim", axes), o.get("keepdim", keeps)
        node = c.cast(x, "bool" if op in ("any", "all") else c.dtype)
        node = forms.reduced(c.b, op, node, axes_of(c, x, axes), keeps=keeps)
        return c.cast(node, c.dtype)

    return read


TABLE.update({
    "sum": _reduced("sum"), "prod": _reduced("prod"), "amax": _reduced("max"),
    "amin": _reduced("min"), "any": _reduced("any"), "all": _reduced("all"),
})  # fmt: skip


@reads("mean")
def _mean(c: Converter, x: NodePlace, axes: Axes = None, keeps: bool = False, **_: Any) -> Id:
    return forms.mean(c.b, c.cast(x, c.dtype), axes_of(c, x, axes), keeps=keeps)


def _less(unbiased: Any, correction: Any) -> int:
    if correction is not None:
        return int(correction)
    return int(unbiased if isinstance(unbiased, bool) else True)


def _spread(
    c: Converter, x: NodePlace, args: Sequence[Any], o: dict[str, Any]
) -> tuple[list[int], int, bool]:
    axes = o.get("dim", args[0] if args and not isinstance(args[0], bool) else None)
    flags = [one for one in args if isinstance(one, bool)]
    if "correction" in o or str(c.node.target).endswith("correction"):
        less = _less(None, o.get("correction", 1))
        keeps = o.get("keepdim", flags[0] if flags else False)
    else:
        less = _less(flags[0] if flags else o.get("unbiased", True), None)
        keeps = flags[1] if len(flags) > 1 else o.get("keepdim", False)
    return axes_of(c, x, axes), less, keeps


@reads("var")
def _var(c: Converter, x: NodePlace, *args: Any, **o: Any) -> Id:
    axes, less, keeps = _spread(c, x, args, o)
    return forms.variance(c.b, x, axes, keeps=keeps, less=less)


@reads("std")
def _std(c: Converter, x: NodePlace, *args: Any, **o: Any) -> Id:
    return c.b.apply("sqrt", _var(c, x, *args, **o))


@reads("var_mean")
def _var_mean(c: Converter, x: NodePlace, *args: Any, **o: Any) -> list[Id]:
    axes, less, keeps = _spread(c, x, args, o)
    return [forms.variance(c.b, x, axes, keeps=keeps, less=less),
            forms.mean(c.b, x, axes, keeps=keeps)]  # fmt: skip


@reads("max", "min")
def _extreme(c: Converter, x: NodePlace, axis: Any = None, keeps: bool = False) -> Any:
    op = str(c.node.target).split(".")[1]
    if isinstance(axis, NodePlace):
        return forms.broadcast_to(
            c.b, c.b.apply(op, c.cast(x, c.dtype), c.of(axis, c.dtype)), c.shape
        )
    axes = axes_of(c, x, axis)
    found = forms.reduced(c.b, op, x, axes, keeps=keeps)
    if axis is None:
        return found
    return [found, forms.reduced(c.b, f"arg{op}", x, axes, keeps=keeps)]


@reads("argmax", "argmin")
def _chosen(c: Converter, x: NodePlace, axis: Any = None, keeps: bool = False) -> Id:
    op = str(c.node.target).split(".")[1]
    if axis is None:
        return forms.reshape(
            c.b, forms.reduced(c.b, op, forms.reshape(c.b, x, (-1,)), [0]), c.shape
        )
    return forms.reduced(c.b, op, x, axes_of(c, x, axis), keeps=keeps)


@reads("linalg_vector_norm", "norm")
def _norm(c: Converter, x: NodePlace, order: Any = 2, axes: Axes = None, keeps: bool = False,
          **_: Any) -> Id:  # fmt: skip
    b, dtype = c.b, c.dtype
    wide = "float32" if dtype in forms.HALVES else dtype
    node, along = c.cast(x, wide), axes_of(c, x, axes)
    order = 2 if order is None else order
    if math.isinf(order):
        return b.cast(forms.reduced(b, "max" if order > 0 else "min", b.apply("abs", node), along,
                                    keeps=keeps), dtype)  # fmt: skip
    if order == 0:
        node = b.cast(b.apply("ne", node, c.of(0, wide)), wide)
    if order in (0, 1):
        return b.cast(forms.reduced(b, "sum", b.apply("abs", node), along, keeps=keeps), dtype)
    if order == 2:
        total = forms.reduced(b, "sum", b.apply("mul", node, node), along, keeps=keeps)
        return b.cast(b.apply("sqrt", total), dtype)
    powers = b.apply("pow", b.apply("abs", node), c.of(float(order), wide))
    total = forms.reduced(b, "sum", powers, along, keeps=keeps)
    return b.cast(b.apply("pow", total, c.of(1.0 / order, wide)), dtype)


@reads("cumsum", "cumprod")
def _scan(c: Converter, x: NodePlace, axis: int, **_: Any) -> Id:
    op = "sum" if str(c.node.target).split(".")[1] == "cumsum" else "prod"
    dtype = c.dtype
    wide = "float32" if dtype in forms.HALVES else dtype
    return c.b.cast(c.b.scan(op, c.cast(x, wide), axis), dtype)


@reads("cummax", "cummin")
def _extremes(c: Converter, x: NodePlace, axis: int) -> list[Id]:
    if any(one.args[1] == 1 and one.users for one in c.node.users):
        raise c.tape.refuse("indices of what was largest so far aren't read")
    found = c.b.scan(str(c.node.target).split(".")[1].removeprefix("cum"), x, axis)
    return [found, found]


@reads("mm", "bmm", "mv", "dot", "matmul", "vdot")
def _matmul(c: Converter, x: NodePlace, y: NodePlace) -> Id:
    return forms.matmul(c.b, x, y, c.dtype)


@reads("addmm", "baddbmm", "addmv", "addbmm")
def _added(
    c: Converter, bias: NodePlace, x: NodePlace, y: NodePlace, *, beta: Any = 1, alpha: Any = 1
) -> Id:
    b, dtype = c.b, c.dtype
    wide = "float32" if dtype in forms.HALVES else dtype
    product = forms.matmul(b, b.cast(x, wide), b.cast(y, wide), wide)
    if alpha != 1:
        product = b.apply("mul", product, c.of(alpha, wide))
    if beta == 0:
        return b.cast(product, dtype)
    rest = b.cast(bias, wide)
    rest = rest if beta == 1 else b.apply("mul", rest, c.of(beta, wide))
    return b.cast(b.apply("add", product, rest), dtype)


def _ordered(c: Converter, x: NodePlace, axis: int, descending: bool) -> list[Id]:
    return [c.b.sort(x, axis, descending=descending),
            c.b.sort(x, axis, descending=descending, order=True)]  # fmt: skip


@reads("sort")
def _sort(c: Converter, x: NodePlace, *args: Any, **o: Any) -> list[Id]:
    rest = [one for one in args if isinstance(one, bool)]
    numbers = [one for one in args if isinstance(one, int) and not isinstance(one, bool)]
    axis = o.get("dim", numbers[0] if numbers else -1)
    descending = o.get("descending", rest[-1] if rest else False)
    return _ordered(c, x, axis, descending)


@reads("argsort")
def _argsort(c: Converter, x: NodePlace, axis: int = -1, descending: bool = False, **_: Any) -> Id:
    return _ordered(c, x, axis, descending)[1]


@reads("topk")
def _topk(
    c: Converter, x: NodePlace, k: int, axis: int = -1, largest: bool = True, *_: Any
) -> list[Id]:
    axis %= max(1, len(c.b.shape(x)))
    return [forms.part_of(c.b, one, axis, 0, k) for one in _ordered(c, x, axis, largest)]


@reads("kthvalue", "median")
def _kth(c: Converter, x: NodePlace, *args: Any, **_: Any) -> Any:
    """The k-th smallest, by sorting; the lower of two in the middle."""
    shape = forms.extent(c.b, x)
    is_kth = "kthvalue" in str(c.node.target)
    if not args:
        x, shape = NodePlace(forms.reshape(c.b, x, (-1,))), (math.prod(shape),)
    axis = (args[1] if len(args) > 1 else -1) if is_kth else (args[0] if args else 0)
    axis %= len(shape)
    place = args[0] - 1 if is_kth else (shape[axis] - 1) // 2
    found = [forms.select(c.b, one, axis, place) for one in _ordered(c, x, axis, False)]
    if not args:
        return found[0]
    value = c.node.meta["val"][0]
    return [forms.reshape(c.b, one, tuple(value.shape)) for one in found]
