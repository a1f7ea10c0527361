"""Products that are packed compute what the graph means, whatever lies around them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.unit.test_schedules import built, called, signature_of

from kinds import another
from roofsmith.computation.building import ONE, ZERO, Builder
from roofsmith.computation.evaluate import evaluate, sizes
from roofsmith.computation.graph import Affine, CarriedValue, Graph, Id, Repeated
from roofsmith.computation.sizes import Size, shape_of
from roofsmith.proposers.recipes._gemm import blocking_for, product_code
from roofsmith.proposers.schedules.c_file import CKernel, c_kernel
from roofsmith.testing.machine import fake_device

F = "float32"
LARGE = {"M": 67, "N": 50, "K": 70, "B": 3, "H": 20, "W": 19}
SMALL = {"M": 1, "N": 7, "K": 3, "B": 1, "H": 3, "W": 4}
DIMS = (LARGE, SMALL, {**LARGE, "K": 300, "B": 2}, {**LARGE, "M": 300, "N": 290})


def packing(real: str, batched: bool) -> str:
    return product_code(real, blocking_for(fake_device(), real), batched=batched)


def plain(b: Builder) -> dict[str, Id]:
    return {"out": b.contract("ik,kj->ij", b.input("x", F, "M", "K"), b.input("w", F, "K", "N"))}


def turned(b: Builder) -> dict[str, Id]:
    w = b.transpose(b.input("w", F, "N", "K"), 1, 0)
    product = b.contract("ik,kj->ij", b.input("x", F, "M", "K"), w)
    return {"out": b.transpose(product, 1, 0)}


def doubles(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", "float64", "M", "K"), b.input("w", "float64", "K", "N")
    return {"out": b.contract("ik,kj->ij", x, w)}


def with_what_follows(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", F, "M", "K"), b.input("w", F, "K", "N")
    biased = b.apply("add", b.contract("ik,kj->ij", x, w), b.input("bias", F, "N"))
    return {"out": b.apply("tanh", biased), "before": biased}


def of_what_is_computed(b: Builder) -> dict[str, Id]:
    x = b.apply("exp", b.input("x", F, "M", "K"))
    scaled = b.apply("mul", x, b.input("s", F, "K"))
    return {"out": b.contract("ik,kj->ij", scaled, b.input("w", F, "K", "N"))}


def in_batches(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", F, "B", "M", "K"), b.input("w", F, "B", "K", "N")
    return {"out": b.contract("bik,bkj->bij", x, w)}


def rows_of_several_axes(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", F, "B", "M", "K"), b.input("w", F, "N", "K")
    return {"out": b.contract("bik,jk->bji", x, w)}


def convolution(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", F, "B", 5, "H", "W"), b.input("w", F, 6, 5, 3, 3)
    high, wide = Size.of("H"), Size.of("W")
    padded = b.pad(x, shape_of(0, 0, 1, 1), shape_of("B", 5, high + 2, wide + 2))
    axes = ((0,), (1,), (2, 4), (3, 5))
    index = [Affine(ZERO, tuple(ONE if axis in own else ZERO for axis in range(6))) for own in axes]
    windows = b.view(padded, shape_of("B", 5, high, wide, 3, 3), index)
    return {"out": b.contract("bcyxhw,ochw->boyx", windows, w)}


def attention(b: Builder) -> dict[str, Id]:
    q, k, v = (b.input(name, F, "B", "M", 16) for name in "qkv")
    scores = b.apply("mul", b.contract("bik,bjk->bij", q, k), b.constant(0.25, F))
    largest = b.expand_dims(b.reduce("max", scores, 2), 2)
    weights = b.apply("exp", b.apply("sub", scores, largest))
    shares = b.apply("div", weights, b.expand_dims(b.reduce("sum", weights, 2), 2))
    return {"out": b.contract("bij,bjd->bid", shares, v)}


def scaled_in_double(b: Builder) -> dict[str, Id]:
    """As NumPy does by `/ np.sqrt(D)`."""
    q, k, v = (b.input(name, F, "B", "M", "W") for name in "qkv")
    root = b.apply("sqrt", b.dimension(Size.of("W"), "float64"))
    scores = b.apply("div", b.cast(b.contract("bik,bjk->bij", q, k), "float64"), root)
    weights = b.apply("exp", b.apply("sub", scores, b.expand_dims(b.reduce("max", scores, 2), 2)))
    shares = b.apply("div", weights, b.expand_dims(b.reduce("sum", weights, 2), 2))
    return {"out": b.cast(b.contract("bij,bjd->bid", shares, b.cast(v, "float64")), F)}


def causal(b: Builder) -> dict[str, Id]:
    """Grouped heads, keys that lie the other way, scores with a bias, and something behind."""
    q, k = b.input("q", F, "B", 2, "M", 16), b.input("k", F, "B", 16, "N")
    v, bias = b.input("v", F, "B", "N", "W"), b.input("bias", F, "M", "N")
    scores = b.apply("mul", b.contract("bhid,bdj->bhij", q, k), b.constant(0.25, F))
    scores = b.apply("add", scores, bias)
    rows, columns = b.expand_dims(b.arange("M"), 1), b.arange("N")
    later = b.apply("gt", columns, rows)
    scores = b.apply("where", later, b.constant(float("-inf"), F), scores)
    top = b.expand_dims(b.reduce("max", scores, 3), 3)
    weights = b.apply("exp", b.apply("sub", scores, top))
    shares = b.apply("div", weights, b.expand_dims(b.reduce("sum", weights, 3), 3))
    mixed = b.contract("bhij,bjd->bhid", shares, v)
    half = b.apply("mul", mixed, b.constant(0.5, F))
    return {"out": b.transpose(mixed, 0, 2, 1, 3), "half": half}


def in_place(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", F, "M", "K"), b.input("w", F, "K", "K")
    return {"x": b.contract("ik,kj->ij", x, w)}


def repeated(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", F, "M", "K"), b.input("w", F, "K", "K")
    now = b.add(CarriedValue(shape_of("M", "K"), F, x, 0, 0))
    after = b.apply("tanh", b.contract("ik,kj->ij", b.apply("mul", now, now), w))
    end = Repeated(shape_of("M", "K"), F, (now, after), 0, 0, Size.of(3))
    return {"out": b.add(end)}


WRITTEN = (
    plain, turned, doubles, with_what_follows, of_what_is_computed, in_batches,
    rows_of_several_axes, convolution, attention, in_place, repeated,
)  # fmt: skip


@pytest.mark.parametrize(
    ("write", "language"),
    [*((one, "c") for one in WRITTEN), (attention, "cpp"),
     *(another(one, "cpp") for one in WRITTEN if one is not attention)],
)  # fmt: skip
def test_computes_what_the_graph_means(
    write: Callable[[Builder], dict[str, Id]], language: str, tmp_path: Path
) -> None:
    builder = Builder()
    graph = builder.graph(**write(builder))
    kernel = kernel_of(graph, language)
    assert "gemm(gemm_call)" in kernel.text
    library = built(kernel.text, language, kernel.flags, tmp_path)
    for dims in DIMS:
        rng = np.random.default_rng(5)
        given = {
            node.name: rng.standard_normal(sizes(node.shape, dims)).astype(node.dtype)
            for node in graph.inputs()
        }
        wanted = evaluate(graph, given, dims)
        found = called(library, signature_of(graph), graph, given, dims)
        for name, right in wanted.items():
            assert np.allclose(found[name].reshape(right.shape), right, rtol=1e-3, atol=2e-4)


def kernel_of(graph: Graph, language: str = "c") -> CKernel:
    return c_kernel(
        graph, signature_of(graph), language=language, threads=2, dims=DIMS, packing=packing
    )


@pytest.mark.parametrize("write", [attention, causal, scaled_in_double])
def test_scores_are_never_all_there(write: Callable[[Builder], dict[str, Id]]) -> None:
    builder = Builder()
    kernel = kernel_of(builder.graph(**write(builder)))
    assert kernel.told == "1 attention online"
    assert "work_space" not in kernel.text


def test_scores_that_are_a_result_are_stored() -> None:
    builder = Builder()
    results = attention(builder)
    graph = builder.graph(**results)
    (top,) = (node for node in graph.nodes if getattr(node, "op", "") == "max")
    kernel = kernel_of(builder.graph(**results, scores=top.operands[0]))
    assert "online" not in kernel.told


def test_small_products_stay_loops() -> None:
    builder = Builder()
    graph = builder.graph(**plain(builder))
    kernel = c_kernel(
        graph, signature_of(graph), language="c", threads=2, dims=[SMALL], packing=packing
    )
    assert "gemm" not in kernel.text


def test_names_of_the_kernel_stay_its_own() -> None:
    builder = Builder()
    x, w = builder.input("sums", F, "M", "K"), builder.input("factor", F, "K", "N")
    product = builder.contract("ik,kj->ij", builder.apply("exp", x), w)
    kernel = kernel_of(builder.graph(out=builder.apply("exp", product)))
    assert "float *sums2 = " in kernel.text
