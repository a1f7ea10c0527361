"""Graphs by hand, of every kind of group, with dims that no vector width divides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roofsmith.computation.building import ONE, ZERO, Builder
from roofsmith.computation.graph import Affine, CarriedValue, Graph, Repeated
from roofsmith.computation.sizes import Size, shape_of

F = "float32"


@dataclass(frozen=True)
class Case:
    graph: Graph
    dims: tuple[Mapping[str, int], ...]
    draws: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], Any]] = field(
        default_factory=dict
    )
    """How an input is drawn where it isn't normal."""
    tolerance: float = 2e-5
    language: str = "c"


CASES: dict[str, Callable[[], Case]] = {}
ODD = ({"N": 7, "D": 101}, {"N": 1, "D": 1}, {"N": 33, "D": 64})
SQUARE = ({"N": 13, "M": 37, "K": 29}, {"N": 1, "M": 1, "K": 1}, {"N": 64, "M": 70, "K": 200})


def case(build: Callable[[], Case]) -> Callable[[], Case]:
    CASES[build.__name__] = build
    return build


def below(name_size: int) -> Callable[[np.random.Generator, tuple[int, ...]], Any]:
    return lambda rng, shape: rng.integers(0, name_size, shape)


def with_nan(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return np.where(rng.random(shape) < 0.01, np.nan, rng.integers(0, 9, shape))


def softmax_nodes(b: Builder, x: int, axis: int) -> int:
    top = b.expand_dims(b.reduce("max", x, axis), axis)
    e = b.apply("exp", b.apply("sub", x, top))
    return b.apply("div", e, b.expand_dims(b.reduce("sum", e, axis), axis))


def mean(b: Builder, x: int, axis: int, dim: str) -> int:
    count = b.cast(b.input(dim, "int32"), F)
    return b.expand_dims(b.apply("div", b.reduce("sum", x, axis), count), axis)


@case
def tiny_product() -> Case:
    b = Builder()
    x, m = b.input("x", F, "N", 4), b.input("m", F, 4, 4)
    return Case(b.graph(y=b.contract("ik,jk->ij", x, m)), ({"N": 7}, {"N": 1}, {"N": 300}))


@case
def triples() -> Case:
    b = Builder()
    x = b.input("x", F, "N", 3)
    total = b.expand_dims(b.reduce("sum", b.apply("mul", x, x), 1), 1)
    top = b.reduce("max", x, 1)
    return Case(b.graph(y=b.apply("div", x, b.apply("sqrt", total)), top=top), ODD)


@case
def softmax() -> Case:
    b = Builder()
    x = b.input("x", F, "N", "D")
    return Case(b.graph(y=softmax_nodes(b, x, 1)), ODD)


@case
def softmax_of_columns() -> Case:
    b = Builder()
    x = b.input("x", F, "N", "D")
    return Case(b.graph(y=softmax_nodes(b, x, 0)), ODD)


@case
def softmax_in_place() -> Case:
    b = Builder()
    x = b.input("x", F, "N", "D")
    return Case(b.graph(x=softmax_nodes(b, x, 1)), ODD, language="cpp")


@case
def log_softmax_loss() -> Case:
    b = Builder()
    x, t = b.input("x", F, "N", "D"), b.input("t", "int64", "N")
    top = b.expand_dims(b.reduce("max", x, 1), 1)
    e = b.apply("sub", x, top)
    logs = b.apply(
        "sub", e, b.expand_dims(b.apply("log", b.reduce("sum", b.apply("exp", e), 1)), 1)
    )
    picked = b.gather(logs, b.arange("N"), t)
    loss = b.reduce("sum", b.apply("neg", picked))
    return Case(b.graph(loss=b.reshape(loss, 1)), ODD, {"t": below(1)})


@case
def layer_norm() -> Case:
    b = Builder()
    x, w, c = b.input("x", F, "N", "D"), b.input("w", F, "D"), b.input("c", F, "D")
    centred = b.apply("sub", x, mean(b, x, 1, "D"))
    var = mean(b, b.apply("mul", centred, centred), 1, "D")
    scale = b.apply("rsqrt", b.apply("add", var, b.constant(1e-5, F)))
    y = b.apply("add", b.apply("mul", b.apply("mul", centred, scale), w), c)
    return Case(b.graph(y=y), ODD)


@case
def argmax_rows() -> Case:
    b = Builder()
    x = b.input("x", F, "N", "D")
    return Case(b.graph(where=b.reduce("argmax", x, 1), low=b.reduce("argmin", x, 0)), ODD,
                {"x": lambda rng, shape: rng.integers(0, 5, shape)})  # fmt: skip


@case
def gelu_chain() -> Case:
    b = Builder()
    x, bias, s = b.input("x", F, "N", "D"), b.input("bias", F, "D"), b.input("s", F)
    z = b.apply("add", b.apply("mul", x, s), bias)
    inner = b.apply("erf", b.apply("mul", z, b.constant(0.70710678, F)))
    gelu = b.apply(
        "mul", b.apply("mul", z, b.constant(0.5, F)), b.apply("add", inner, b.constant(1.0, F))
    )
    return Case(b.graph(y=gelu, z=z), ODD, language="cpp")


@case
def transposed_sum() -> Case:
    b = Builder()
    x, y = b.input("x", F, "N", "D"), b.input("y", F, "D", "N")
    return Case(b.graph(z=b.apply("add", b.transpose(x, 1, 0), y)), ODD)


@case
def flipped_and_sliced() -> Case:
    b = Builder()
    x = b.input("x", F, "N", "D")
    last = Affine(Size.of("D") - 1, (ZERO, Size.of(-1)))
    flip = b.view(x, shape_of("N", "D"), [Affine(ZERO, (ONE, ZERO)), last])
    return Case(b.graph(y=b.apply("sub", x, flip)), ODD)


@case
def padded_stencil() -> Case:
    b = Builder()
    x = b.input("x", F, "N", "D")
    n, d = Size.of("N"), Size.of("D")
    p = b.pad(x, shape_of(1, 1), (n + 2, d + 2), 0.0)

    def shifted(at: int, to: int) -> int:
        index = [Affine(Size.of(at), (ONE, ZERO)), Affine(Size.of(to), (ZERO, ONE))]
        return b.view(p, shape_of("N", "D"), index)

    total = shifted(0, 1)
    for at, to in ((2, 1), (1, 0), (1, 2)):
        total = b.apply("add", total, shifted(at, to))
    once = b.apply("mul", total, b.constant(0.25, F))
    return Case(b.graph(y=b.apply("tanh", once)), ODD)


@case
def two_sweeps() -> Case:
    b = Builder()
    x = b.input("x", F, "D")
    d = Size.of("D")
    for _ in range(3):
        p = b.pad(x, shape_of(1), (d + 2,), 1.0)
        left, right = (b.view(p, shape_of("D"), [Affine(Size.of(o), (ONE,))]) for o in (0, 2))
        x = b.apply("add", b.apply("mul", b.apply("add", left, right), b.constant(0.25, F)), x)
    return Case(b.graph(x=x), ODD)


@case
def concat_of_three() -> Case:
    b = Builder()
    x, y = b.input("x", F, "N", "D"), b.input("y", F, "N", "D")
    return Case(b.graph(z=b.concat(1, x, b.apply("exp", y), x)), ODD)


@case
def concat_then_sum() -> Case:
    b = Builder()
    x, y = b.input("x", F, "N", "D"), b.input("y", F, 3, "D")
    both = b.concat(0, x, y)
    return Case(b.graph(s=b.reduce("sum", both, 0), m=b.reduce("max", both, 1)), ODD)


@case
def total_norm() -> Case:
    b = Builder()
    x = b.input("x", F, "N", "D")
    total = b.apply("sqrt", b.reduce("sum", b.apply("mul", x, x)))
    return Case(
        b.graph(n=b.reshape(total, 1), y=b.apply("div", x, total)), (*ODD, {"N": 300, "D": 1001})
    )


@case
def totals_of_integers() -> Case:
    b = Builder()
    x = b.input("x", "int32", "N", "D")
    wide = b.cast(x, "int64")
    s, m = b.reduce("sum", wide), b.reduce("max", x, 1)
    some = b.reduce("any", b.apply("gt", x, b.constant(90, "int32")), 0)
    every = b.reduce("all", b.apply("ge", x, b.constant(1, "int32")), 1)
    return Case(b.graph(s=b.reshape(s, 1), m=m, some=some, every=every), ODD, {"x": below(100)})


@case
def integer_arithmetic() -> Case:
    b = Builder()
    x, y = b.input("x", "int32", "D"), b.input("y", "int32", "D")
    q, r = b.apply("floordiv", x, y), b.apply("mod", x, y)
    narrow = b.apply("add", b.cast(x, "uint8"), b.cast(x, "uint8"))
    mixed = b.apply("where", b.apply("lt", x, y), b.apply("bit_xor", x, y), b.apply("min", x, y))
    return Case(b.graph(q=q, r=r, narrow=narrow, mixed=mixed), ODD,
                {"x": lambda g, s: g.integers(-99, 99, s),
                 "y": lambda g, s: g.integers(1, 9, s) * g.choice([-1, 1], s)})  # fmt: skip


@case
def running_sums() -> Case:
    b = Builder()
    x = b.input("x", F, "N", "D")
    along, down = b.scan("sum", x, 1), b.scan("max", x, 0)
    return Case(b.graph(along=b.apply("mul", along, b.constant(2.0, F)), down=down), ODD)


@case
def embedding() -> Case:
    b = Builder()
    table, ids = b.input("table", F, 50, "D"), b.input("ids", "int32", "N")
    column = b.expand_dims(ids, 1)
    picked = b.gather(table, column, b.arange("D", "int32"))
    return Case(b.graph(y=picked), ODD, {"ids": below(50)})


@case
def rows_picked_and_used_twice() -> Case:
    b = Builder()
    table, at = b.input("table", F, "V", "D"), b.input("at0_", "int64", "N", "M")
    picked = b.gather(table, b.expand_dims(at, 2), b.arange("D", "int64"))
    running = b.scan("sum", picked, 1)
    graph = b.graph(best=b.reduce("argmax", running, 2), y=b.apply("mul", picked, picked))
    return Case(
        graph,
        ({"V": 50, "D": 16, "N": 7, "M": 9}, {"V": 3, "D": 101, "N": 2, "M": 5}),
        draws={"at0_": below(3)},
    )


@case
def histogram() -> Case:
    b = Builder()
    x = b.input("x", "uint8", "D")
    zeros = b.view(b.constant(0, "int32"), shape_of(256), [])
    ones = b.view(b.constant(1, "int32"), shape_of("D"), [])
    return Case(
        b.graph(counts=b.scatter("add", zeros, [b.cast(x, "int64")], ones)), ODD, {"x": below(200)}
    )


@case
def scatter_rows_in_place() -> Case:
    b = Builder()
    x, i, u = b.input("x", F, "N", "D"), b.input("i", "int64", "N", "D"), b.input("u", F, "N", "D")
    rows = b.expand_dims(b.arange("N"), 1)
    rows = b.view(rows, shape_of("N", "D"), [Affine(ZERO, (ONE, ZERO)), Affine(ZERO, (ZERO, ZERO))])
    return Case(b.graph(x=b.scatter("set", x, [rows, i], u)), ODD, {"i": below(1)})


@case
def product() -> Case:
    b = Builder()
    x, y = b.input("x", F, "N", "K"), b.input("y", F, "K", "M")
    bias = b.input("bias", F, "M")
    z = b.apply("add", b.contract("nk,km->nm", x, y), bias)
    return Case(b.graph(z=b.apply("max", z, b.constant(0.0, F))), SQUARE)


@case
def product_of_transposed() -> Case:
    b = Builder()
    x, y = b.input("x", F, "N", "K"), b.input("y", F, "M", "K")
    return Case(b.graph(z=b.contract("nk,mk->nm", x, y)), SQUARE)


@case
def matrix_times_vector() -> Case:
    b = Builder()
    x, y, z = b.input("x", F, "N", "K"), b.input("y", F, "K"), b.input("z", F, "N")
    forth = b.contract("nk,k->n", x, y)
    back = b.contract("nk,n->k", x, z)
    return Case(b.graph(forth=forth, back=back), SQUARE)


@case
def attention() -> Case:
    b = Builder()
    q, k, v = (b.input(name, F, 2, "N", "D") for name in "qkv")
    scores = b.apply("mul", b.contract("hnd,hmd->hnm", q, k), b.constant(0.125, F))
    row, column = b.expand_dims(b.arange("N"), 1), b.arange("N")
    masked = b.apply("where", b.apply("ge", row, column), scores, b.constant(float("-inf"), F))
    return Case(b.graph(out=b.contract("hnm,hmd->hnd", softmax_nodes(b, masked, 2), v)), ODD)


@case
def convolution() -> Case:
    b = Builder()
    x, w = b.input("x", F, 2, 3, "N", "D"), b.input("w", F, 4, 3, 3, 3)
    n, d = Size.of("N"), Size.of("D")
    p = b.pad(x, shape_of(0, 0, 1, 1), (Size.of(2), Size.of(3), n + 2, d + 2), 0.0)

    def axis(*ones: int) -> Affine:
        return Affine(ZERO, tuple(ONE if at in ones else ZERO for at in range(6)))

    windows = b.view(p, shape_of(2, 3, "N", "D", 3, 3), [axis(0), axis(1), axis(2, 4), axis(3, 5)])
    return Case(b.graph(y=b.contract("bchwij,ocij->bohw", windows, w)), ODD)


@case
def max_pooling() -> Case:
    b = Builder()
    x = b.input("x", F, "N", "D")
    n, d = Size.of("N"), Size.of("D")
    p = b.pad(b.apply("exp", x), shape_of(0, 0), (n + 2, d + 2), float("-inf"))
    two = [Affine(ZERO, (ONE, ZERO, ONE, ZERO)), Affine(ZERO, (ZERO, ONE, ZERO, ONE))]
    windows = b.view(p, shape_of("N", "D", 3, 3), two)
    return Case(b.graph(y=b.reduce("max", windows, 2, 3)), ODD)


@case
def group_norm_reshapes() -> Case:
    b = Builder()
    x, w = b.input("x", F, "N", 6, "D"), b.input("w", F, 6)
    flat = b.reshape(x, "N", 3, Size.of("D") * 2)
    total = b.expand_dims(b.reduce("sum", flat, 2), 2)
    centred = b.reshape(b.apply("sub", flat, total), "N", 6, "D")
    return Case(b.graph(y=b.apply("mul", centred, b.expand_dims(w, 1))), ODD, tolerance=1e-4)


@case
def half_precision_sum() -> Case:
    b = Builder()
    x = b.input("x", "float16", "N", "D")
    total = b.cast(b.reduce("sum", b.cast(x, F), 1), "float16")
    return Case(b.graph(y=b.apply("mul", x, x), s=total),
                ODD, tolerance=2e-3)  # fmt: skip


@case
def double_precision() -> Case:
    b = Builder()
    x = b.input("x", "float64", "N", "D")
    y = b.apply("exp", b.apply("sub", x, b.expand_dims(b.reduce("max", x, 1), 1)))
    return Case(b.graph(y=y, p=b.apply("pow", x, b.constant(3.0, "float64"))), ODD, tolerance=1e-13)


@case
def same_result_twice() -> Case:
    b = Builder()
    x, y = b.input("x", F, "N", "D"), b.input("y", F, "N", "D")
    z = b.apply("add", x, y)
    return Case(b.graph(x=y, y=x, a=z, c=z), ODD)


@case
def sorted_rows() -> Case:
    b = Builder()
    x = b.input("x", F, "N", "D")
    down = b.sort(x, 1, descending=True, order=True)
    return Case(b.graph(up=b.sort(x, 0), down=down, first=b.sort(x, 1)), ODD,
                {"x": lambda g, s: with_nan(g, s)})  # fmt: skip


@case
def places_of_rows() -> Case:
    """What lies at two places once rows are sorted, in either order, as medians need it."""
    b = Builder()
    x = b.input("x", F, "N", "D")
    up, down, again = b.sort(x, 1), b.sort(x, 1, descending=True), b.sort(b.apply("neg", x), 1)
    at = [
        b.view(rows, shape_of("N"), [Affine(ZERO, (ONE,)), Affine(place, (ZERO,))])
        for rows in (up, down, again) for place in ((Size.of("D") - 1) // 2, Size.of("D") // 2)
    ]  # fmt: skip
    results = {f"y{n}": one for n, one in enumerate(at)} | {"z": b.sort(b.apply("abs", x), 1)}
    return Case(b.graph(**results), ODD, {"x": with_nan})


@case
def largest_of_rows() -> Case:
    b = Builder()
    x = b.input("x", F, "N", "D")
    order = b.sort(b.apply("neg", x), 1)
    two = [Affine(ZERO, (ONE, ZERO)), Affine(ZERO, (ZERO, ONE))]
    best = b.view(order, shape_of("N", "K"), two)
    dims = ({"N": 5, "D": 101, "K": 7}, {"N": 1, "D": 1, "K": 1}, {"N": 2, "D": 300, "K": 299})
    return Case(b.graph(best=b.reshape(b.apply("neg", best), Size.of("N") * Size.of("K"))), dims)


@case
def names_that_loops_would_take() -> Case:
    b = Builder()
    best, row, order = (
        b.input("best", F, "i", "j"),
        b.input("v1", F, "j"),
        b.input("top", F, "i", "j"),
    )
    ranked = b.sort(b.apply("add", best, row), 1)
    total = b.reduce("sum", b.apply("mul", order, order), 1)
    dims = ({"i": 5, "j": 101}, {"i": 1, "j": 1})
    return Case(b.graph(sum=total, row=ranked, order=b.sort(best, 1, order=True)), dims)


@case
def columns_less_their_mean() -> Case:
    b = Builder()
    x = b.input("x", F, "N", "D")
    count = b.cast(b.input("N", "int32"), F)
    mean_of = b.expand_dims(b.apply("div", b.reduce("sum", x, 0), count), 0)
    centred = b.apply("sub", x, mean_of)
    where = b.apply("add", b.cast(b.reduce("argmax", x, 0), F), b.reduce("max", centred, 0))
    return Case(b.graph(y=centred, p=where), ODD)


def with_inner(b: Builder, x: int, inner: int) -> int:
    """An array whose elements, but those at the border, are others."""
    n = Size.of("N")
    padded = b.pad(inner, shape_of(1, 1), shape_of("N", "N"))
    rows, columns = b.expand_dims(b.arange("N"), 1), b.arange("N")
    one, end = b.dimension(Size.of(1)), b.dimension(n - 1)
    tests = [b.apply("ge", rows, one), b.apply("lt", rows, end), b.apply("ge", columns, one),
             b.apply("lt", columns, end)]  # fmt: skip
    every = tests[0]
    for test in tests[1:]:
        every = b.apply("and", every, test)
    return b.apply("where", every, padded, x)


@case
def sweeps_over_two_arrays() -> Case:
    b = Builder()
    x, y = b.input("x", F, "N", "N"), b.input("y", F, "N", "N")
    n = Size.of("N") - 2
    for _ in range(7):
        for turn in (False, True):
            old, new = (y, x) if turn else (x, y)
            parts = [
                b.view(old, (n, n), [Affine(Size.of(down), (ONE, ZERO)),
                                     Affine(Size.of(right), (ZERO, ONE))])
                for down, right in ((1, 1), (0, 1), (2, 1), (1, 0), (1, 2))
            ]  # fmt: skip
            total = parts[0]
            for part in parts[1:]:
                total = b.apply("add", total, part)
            new = with_inner(b, new, b.apply("mul", total, b.constant(0.2, F)))
            x, y = (new, y) if turn else (x, new)
    return Case(b.graph(x=x, y=y), ({"N": 37}, {"N": 3}))


@case
def powers_of_a_matrix() -> Case:
    b = Builder()
    a, x = b.input("a", F, "N", "N"), b.input("x", F, "N")
    for _ in range(5):
        y = b.contract("ij,j->i", a, x)
        x = b.apply("div", y, b.apply("sqrt", b.reduce("sum", b.apply("mul", y, y), 0)))
    return Case(b.graph(y=x), ({"N": 37}, {"N": 2}), tolerance=1e-4)


def windows_of(b: Builder, x: int, high: Size, wide: Size, step: int) -> int:
    """Of 3 by 3 in the last two of four axes."""
    axes = ((0,), (1,), (2, 4), (3, 5))
    strides = [tuple((Size.of(step) if axis in (2, 3) else ONE) if axis in own else ZERO
                     for axis in range(6)) for own in axes]  # fmt: skip
    index = [Affine(ZERO, one) for one in strides]
    return b.view(x, shape_of("N", 3, high, wide, 3, 3), index)


@case
def windows_of_each_channel() -> Case:
    b = Builder()
    x, w = b.input("x", F, "N", 3, "D", "D"), b.input("w", F, 3, 3, 3)
    d = Size.of("D")
    padded = b.pad(x, shape_of(0, 0, 1, 1), shape_of("N", 3, d + 2, d + 2))
    y = b.contract("bcijuv,cuv->bcij", windows_of(b, padded, d, d, 1), w)
    dims = ({"N": 2, "D": 37}, {"N": 1, "D": 1}, {"N": 3, "D": 8})
    return Case(b.graph(y=b.apply("max", y, b.constant(0.0, F))), dims)


@case
def largest_and_mean_of_windows() -> Case:
    b = Builder()
    x = b.input("x", F, "N", 3, Size.of("D") * 2 + 1, Size.of("D") * 2 + 1)
    seen = windows_of(b, x, Size.of("D"), Size.of("D"), 2)
    mean_of = b.apply("div", b.reduce("sum", seen, 4, 5), b.constant(9.0, F))
    dims = ({"N": 2, "D": 37}, {"N": 1, "D": 1}, {"N": 3, "D": 8})
    return Case(b.graph(top=b.reduce("max", seen, 4, 5), mean=mean_of), dims,
                {"x": lambda g, s: with_nan(g, s)})  # fmt: skip


@case
def windows_of_all_channels() -> Case:
    b = Builder()
    x, w = b.input("x", F, "N", 3, "D", "D"), b.input("w", F, "K", 3, 3, 3)
    d = Size.of("D")
    y = b.contract("bcijuv,ocuv->boij", windows_of(b, x, d - 2, d - 2, 1), w)
    return Case(b.graph(y=y), ({"N": 2, "D": 21, "K": 5}, {"N": 1, "D": 3, "K": 1}))


@case
def sweeps_that_carry_two_arrays() -> Case:
    b = Builder()
    x, y, shape = b.input("x", F, "N", "D"), b.input("y", F, "N", "D"), shape_of("N", "D")
    now, before = b.add(CarriedValue(shape, F, x, 0, 0)), b.add(CarriedValue(shape, F, y, 0, 1))
    inner = (Size.of("N"), Size.of("D") - 2)
    sides = [
        b.view(now, inner, (Affine(ZERO, (ONE, ZERO)), Affine(Size.of(start), (ZERO, ONE))))
        for start in (0, 2)
    ]
    around = b.pad(b.apply("add", *sides), (ZERO, ONE), shape)
    means = b.expand_dims(b.reduce("max", now, 1), 1)
    third = b.constant(0.3, F)
    after = b.apply("mul", b.apply("sub", b.apply("add", around, means), before), third)
    args, count = (now, after, before, now), Size.of("T")
    ends = [b.add(Repeated(shape, F, args, which, 0, count)) for which in (0, 1)]
    dims = ({"N": 7, "D": 101, "T": 4}, {"N": 1, "D": 3, "T": 1}, {"N": 5, "D": 64, "T": 0})
    return Case(b.graph(a=ends[0], b=b.apply("add", ends[1], x)), dims)


@case
def sweeps_in_place() -> Case:
    """Of three arrays two overwrite each other's inside; what the third was is needed later."""
    b = Builder()
    x, y, z = (b.input(name, F, "N", "N") for name in "xyz")
    shape, n = shape_of("N", "N"), Size.of("N")
    carried = [b.add(CarriedValue(shape, F, one, 0, at)) for at, one in enumerate((x, y, z))]

    def smoothed(of: int, into: int) -> int:
        above, left = (
            b.view(of, (n - 2, n - 2), [Affine(Size.of(down), (ONE, ZERO)),
                                        Affine(Size.of(right), (ZERO, ONE))])
            for down, right in ((0, 1), (1, 0))
        )  # fmt: skip
        total = b.apply("mul", b.apply("add", above, left), b.constant(0.4, F))
        return with_inner(b, into, total)

    now, other, third = carried
    made = smoothed(now, other)
    again = smoothed(made, now)
    mixed = b.apply("add", third, b.view(third, shape, [Affine(n - 1, (ZERO - 1, ZERO)),
                                                        Affine(ZERO, (ZERO, ONE))]))  # fmt: skip
    last = b.apply("mul", mixed, b.constant(0.5, F))
    args = (now, again, other, made, third, last)
    ends = [b.add(Repeated(shape, F, args, at, 0, Size.of("T"))) for at in range(3)]
    dims = ({"N": 37, "T": 4}, {"N": 3, "T": 1}, {"N": 8, "T": 0})
    return Case(b.graph(x=ends[0], y=ends[1], z=ends[2]), dims)


@case
def three_arrays_overwritten() -> Case:
    b = Builder()
    x, y, z = (b.input(name, F, "N") for name in "xyz")
    return Case(
        b.graph(x=b.apply("add", x, y), y=b.apply("mul", y, z), z=b.apply("exp", z)),
        ({"N": 101}, {"N": 1}),
    )


@case
def the_first_of_what_is_longer() -> Case:
    """Where a result is given, and its first elements are those of an array that goes on."""
    b = Builder()
    top = b.expand_dims(b.reduce("max", b.input("y", F, "N"), 0), 0)
    sums = b.scan("sum", b.apply("mul", b.input("x", F, "D"), top), 0)
    first = b.view(sums, shape_of("N"), [Affine(ZERO, (ONE,))])
    return Case(b.graph(y=first), ({"N": 7, "D": 101}, {"N": 1, "D": 1}, {"N": 33, "D": 64}))


@case
def one_element() -> Case:
    """Of one axis, along which nothing is contiguous."""
    b = Builder()
    x = b.view(b.input("x", F, "N"), shape_of(1), [Affine(ZERO, (ONE,))])
    return Case(b.graph(y=b.apply("add", x, b.input("z", F, 1))), ({"N": 5}, {"N": 1}))
