"""Products and attention in CUDA compute, on the host, what graphs mean; and are CUDA."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_kernels import needs_nvcc, nvcc
from cuda_on_host import compile_on_host
from test_schedules import called, signature_of

from roofsmith.computation.building import ONE, ZERO, Builder
from roofsmith.computation.evaluate import evaluate, sizes
from roofsmith.computation.graph import Affine, Graph, Id
from roofsmith.computation.sizes import Size, shape_of
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.proposers.schedules.cuda.module import cuda_kernel
from roofsmith.proposers.schedules.wanted import Wanted
from roofsmith.proposers.tunables import find_tunables

F = "float32"
H = "float16"


def plain(b: Builder) -> dict[str, Id]:
    return {"out": b.contract("ik,kj->ij", b.input("x", F, "M", "K"), b.input("w", F, "K", "N"))}


def turned(b: Builder) -> dict[str, Id]:
    w = b.transpose(b.input("w", F, "N", "K"), 1, 0)
    product = b.contract("ik,kj->ij", b.input("x", F, "M", "K"), w)
    return {"out": b.transpose(product, 1, 0)}


def both_turned(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", F, "K", "M"), b.input("w", F, "N", "K")
    return {"out": b.contract("ki,jk->ij", x, w)}


def scaled_onto_what_was_there(b: Builder) -> dict[str, Id]:
    x, w, c = b.input("x", F, "M", "K"), b.input("w", F, "K", "N"), b.input("c", F, "M", "N")
    scaled = b.apply("mul", b.contract("ik,kj->ij", x, w), b.input("alpha", F))
    return {"c": b.apply("add", scaled, b.apply("mul", c, b.input("beta", F)))}


def in_place(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", F, "M", "K"), b.input("w", F, "K", "K")
    return {"x": b.contract("ik,kj->ij", x, w)}


def silu(b: Builder, x: Id) -> Id:
    one = b.constant(1.0, F)
    return b.apply("div", x, b.apply("add", one, b.apply("exp", b.apply("neg", x))))


def with_what_follows(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", F, "M", "K"), b.input("w", F, "K", "N")
    biased = b.apply("add", b.contract("ik,kj->ij", x, w), b.input("bias", F, "N"))
    return {"out": silu(b, biased), "before": biased}


def gelu_and_residual(b: Builder) -> dict[str, Id]:
    x, w, r = b.input("x", F, "M", "K"), b.input("w", F, "N", "K"), b.input("r", F, "M", "N")
    z = b.apply("add", b.contract("ik,jk->ij", x, w), b.input("bias", F, "N"))
    inner = b.apply("erf", b.apply("mul", z, b.constant(0.70710678, F)))
    gelu = b.apply(
        "mul", b.apply("mul", z, b.constant(0.5, F)), b.apply("add", inner, b.constant(1.0, F))
    )
    return {"out": b.apply("add", gelu, r)}


def of_what_is_computed(b: Builder) -> dict[str, Id]:
    x = b.apply("tanh", b.input("x", F, "M", "K"))
    scaled = b.apply("mul", x, b.input("s", F, "K"))
    return {"out": b.contract("ik,kj->ij", scaled, b.input("w", F, "K", "N"))}


def in_batches(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", F, "B", "M", "K"), b.input("w", F, "B", "K", "N")
    return {"out": b.contract("bik,bkj->bij", x, w)}


def rows_of_several_axes(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", F, "B", "M", "K"), b.input("w", F, "N", "K")
    return {"out": b.contract("bik,jk->bji", x, w)}


def grouped_heads(b: Builder) -> dict[str, Id]:
    q, k = b.input("q", F, 2, 4, "M", "K"), b.input("k", F, 2, 2, "N", "K")
    four = b.view(k, shape_of(2, 2, 2, "N", "K"), [
        Affine(ZERO, tuple(ONE if axis == at else ZERO for axis in range(5)))
        for at in (0, 1, 3, 4)
    ])  # fmt: skip
    repeated = b.reshape(four, 2, 4, "N", "K")
    return {"out": b.contract("bhik,bhjk->bhij", q, repeated)}


def summed_over_two_axes(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", F, "B", "M", "K"), b.input("w", F, "B", "N", "K")
    return {"out": b.contract("bik,bjk->ij", x, w)}


def convolution(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", F, "B", 9, "M", "N"), b.input("w", F, 12, 9, 3, 3)
    high, wide = Size.of("M"), Size.of("N")
    padded = b.pad(x, shape_of(0, 0, 1, 1), shape_of("B", 9, high + 2, wide + 2))
    axes = ((0,), (1,), (2, 4), (3, 5))
    index = [Affine(ZERO, tuple(ONE if axis in own else ZERO for axis in range(6))) for own in axes]
    windows = b.view(padded, shape_of("B", 9, high, wide, 3, 3), index)
    return {"out": b.contract("bcyxhw,ochw->boyx", windows, w)}


def halves(b: Builder, dtype: str = H, turned: bool = False) -> dict[str, Id]:
    x = b.input("x", dtype, *(("K", "M") if turned else ("M", "K")))
    w = b.input("w", dtype, *(("K", "N") if turned else ("N", "K")))
    z = b.contract("ki,kj->ij" if turned else "ik,jk->ij", x, w)
    wide = b.cast(b.apply("add", z, b.input("bias", dtype, "N")), F)
    return {"out": b.cast(silu(b, wide), dtype)}


def halves_turned(b: Builder) -> dict[str, Id]:
    return halves(b, turned=True)


def computed_halves(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", H, "M", "K"), b.input("w", H, "K", "N")
    return {"out": b.contract("ik,kj->ij", b.apply("max", x, b.constant(0.0, H)), w)}


def halves_in_batches(b: Builder) -> dict[str, Id]:
    x, w = b.input("x", H, "B", "K", "M"), b.input("w", H, "B", "K", "N")
    return {"out": b.apply("add", b.contract("bki,bkj->bij", x, w), b.input("bias", H, "N"))}


def brains(b: Builder) -> dict[str, Id]:
    return halves(b, "bfloat16")


def halves_into_floats(b: Builder) -> dict[str, Id]:
    x, w = (b.cast(b.input(n, H, *s), F) for n, s in (("x", ("M", "K")), ("w", ("K", "N"))))
    return {"out": b.contract("ik,kj->ij", x, w)}


def attended(
    b: Builder, dtype: str = F, *, causal: bool = False, width: int | str = "K",
    mask: bool = False, heads_last: bool = False, groups: int = 1,
) -> dict[str, Id]:  # fmt: skip
    """Of queries (B, 2, M, K) and as many keys and values, or of heads that share them."""
    rows = ("M", "N")
    kept = 2 // groups
    if heads_last:
        shapes = [("B", rows[0], 2, "K"), ("B", rows[1], kept, "K"), ("B", rows[1], kept, width)]
        q, k, v = (
            b.transpose(b.input(n, dtype, *s), 0, 2, 1, 3)
            for n, s in zip("qkv", shapes, strict=True)
        )
    else:
        shapes = [("B", 2, rows[0], "K"), ("B", kept, rows[1], "K"), ("B", kept, rows[1], width)]
        q, k, v = (b.input(n, dtype, *s) for n, s in zip("qkv", shapes, strict=True))
    if groups > 1:

        def repeated(x: Id, last: int | str) -> Id:
            index = [
                Affine(ZERO, tuple(ONE if axis == at else ZERO for axis in range(5)))
                for at in (0, 1, 3, 4)
            ]
            return b.reshape(
                b.view(x, shape_of("B", kept, groups, rows[1], last), index), "B", 2, rows[1], last
            )

        k, v = repeated(k, "K"), repeated(v, width)
    scores = b.cast(b.contract("bhik,bhjk->bhij", q, k), F)
    scores = b.apply("mul", scores, b.constant(0.25, F))
    if mask:
        scores = b.apply("add", scores, b.input("mask", F, "M", "N"))
    if causal:
        later = b.apply("gt", b.arange("N"), b.expand_dims(b.arange("M"), 1))
        scores = b.apply("where", later, b.constant(float("-inf"), F), scores)
    largest = b.expand_dims(b.reduce("max", scores, 3), 3)
    weights = b.apply("exp", b.apply("sub", scores, largest))
    shares = b.apply("div", weights, b.expand_dims(b.reduce("sum", weights, 3), 3))
    out = b.contract("bhij,bhjd->bhid", b.cast(shares, dtype), v)
    return {"out": b.transpose(out, 0, 2, 1, 3) if heads_last else out}


def attention(b: Builder) -> dict[str, Id]:
    return attended(b)


def attention_causal(b: Builder) -> dict[str, Id]:
    return attended(b, causal=True, heads_last=True)


def attention_masked(b: Builder) -> dict[str, Id]:
    return attended(b, mask=True, width=40)


def attention_grouped(b: Builder) -> dict[str, Id]:
    return attended(b, groups=2, causal=True)


def attention_half(b: Builder) -> dict[str, Id]:
    return attended(b, H)


def attention_half_causal(b: Builder) -> dict[str, Id]:
    return attended(b, H, causal=True, heads_last=True, groups=2, width=72)


DIMS = ({"M": 67, "N": 50, "K": 70, "B": 3}, {"M": 72, "N": 64, "K": 272, "B": 2},
        {"M": 9, "N": 130, "K": 300, "B": 1})  # fmt: skip
FEWER = {convolution: ({"M": 5, "N": 50, "B": 2}, {"M": 9, "N": 16, "B": 1}),
         grouped_heads: ({"M": 37, "N": 50, "K": 36}, {"M": 8, "N": 70, "K": 64})}  # fmt: skip
SINGLES = (plain, turned, both_turned, with_what_follows, gelu_and_residual, of_what_is_computed,
           in_batches, rows_of_several_axes, grouped_heads, summed_over_two_axes,
           convolution, in_place, scaled_onto_what_was_there)  # fmt: skip
HALVES = (halves, halves_turned, computed_halves, halves_into_floats, halves_in_batches)
ATTENTIONS = (attention, attention_causal, attention_masked, attention_grouped)
HALF_ATTENTIONS = (attention_half, attention_half_causal)
HEADS = ({"M": 67, "N": 67, "K": 32, "B": 2}, {"M": 130, "N": 90, "K": 64, "B": 1},
         {"M": 9, "N": 130, "K": 35, "B": 1}, {"M": 20, "N": 70, "K": 128, "B": 1},
         {"M": 3, "N": 5, "K": 140, "B": 1})  # fmt: skip
Write = Callable[[Builder], dict[str, Id]]
RUNS: dict[str, tuple[Write, str]] = {
    **{f"{one.__name__}_ffma": (one, "ffma") for one in SINGLES},
    **{f"{one.__name__}_3xtf32": (one, "3xtf32") for one in SINGLES},
    **{f"{one.__name__}_mma": (one, "mma") for one in HALVES},
    **{f"{one.__name__}_wgmma": (one, "wgmma") for one in (halves, halves_in_batches)},
    "plain_tf32": (plain, "tf32"),
    **{one.__name__: (one, "attention") for one in ATTENTIONS},
    **{one.__name__: (one, "half_attention") for one in HALF_ATTENTIONS},
}


COMPILED = {
    **RUNS,
    "brains_mma": (brains, "mma"),
    "brains_wgmma": (brains, "wgmma"),
}
"""NumPy has no bfloat16."""


def graph_of(write: Write) -> Graph:
    builder = Builder()
    return builder.graph(**write(builder))


def text_of(name: str) -> str:
    write, engine = COMPILED[name]
    graph = graph_of(write)
    known = DIMS if "attention" not in engine else HEADS[:1] if "grouped" in name else ()
    arch = {"wgmma": "sm_90", "ffma": "sm_75"}.get(engine)
    wanted = Wanted(dims=known, cores=4, tf32=engine == "tf32", arch=arch)
    text = cuda_kernel(graph, signature_of(graph), wanted).text
    launch = engine if engine in ("ffma", "wgmma") else "mma"
    launch = "attention" if "attention" in engine else launch
    assert f"launch_{launch}(kernel_" in text
    return text


class _Entry:
    """A library with one file's entry by its usual name."""

    def __init__(self, library: Any, name: str) -> None:
        self.solve = library[f"solve_{name}"]


def inputs_of(graph: Graph, dims: Mapping[str, int]) -> dict[str, Any]:
    rng, given = np.random.default_rng(3), {}
    for node in graph.inputs():
        value = np.asarray(dims.get(node.name, rng.standard_normal(sizes(node.shape, dims))))
        given[node.name] = value.astype(node.dtype)
    return given


OFTEN = ("with_what_follows_ffma", "both_turned_ffma", "in_batches_3xtf32", "halves_mma",
         "halves_in_batches_wgmma", "attention_grouped", "attention_half_causal")  # fmt: skip


def cases(names: Mapping[str, Any], often: Collection[str]) -> list[Any]:
    """All, of which those that aren't for every run are marked."""
    return [n if n in often else pytest.param(n, marks=pytest.mark.whole) for n in names]


@pytest.mark.parametrize("name", cases(RUNS, OFTEN))
def test_computes_what_the_graph_means(name: str, tmp_path: Path) -> None:
    library = compile_on_host({name: text_of(name)}, tmp_path)
    graph = graph_of(RUNS[name][0])
    tolerance = {"ffma": 2e-5, "3xtf32": 2e-5, "tf32": 5e-3, "mma": 4e-3, "wgmma": 4e-3,
                 "attention": 2e-5, "half_attention": 4e-3}[RUNS[name][1]]  # fmt: skip
    for dims in HEADS if "attention" in name else FEWER.get(RUNS[name][0], DIMS):
        given = inputs_of(graph, dims)
        wanted = evaluate(graph, given, dims)
        found = called(_Entry(library, name), signature_of(graph), graph, given, dims)
        for output, right in wanted.items():
            got = found[output].astype(np.float64).reshape(right.shape)
            scale = max(1.0, float(np.abs(right).max(initial=0.0)))
            np.testing.assert_allclose(
                got, right.astype(np.float64), rtol=tolerance, atol=tolerance * scale,
                err_msg=f"{output} of {name} at {dims}",
            )  # fmt: skip


FEW = ("with_what_follows_ffma", "convolution_3xtf32", "brains_wgmma", "attention_grouped",
       "attention_half_causal")  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("name", cases(COMPILED, FEW))
def test_is_cuda(name: str, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(text_of(name))
    command = nvcc("-arch=sm_90a", "-Werror=all-warnings", "-cubin", "-o", tmp_path / "k.o", source)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_tiles_and_stages_are_for_the_sweep() -> None:
    for name, own in (
        ("plain_3xtf32", "PRODUCT_STAGES"), ("halves_wgmma", "PRODUCT_HOPPER_N"),
        ("attention", "ATTENTION_KEYS"), ("plain_ffma", "PRODUCT_BLOCK_M"),
    ):  # fmt: skip
        source = SourceFile(path="k.cu", text=text_of(name))
        candidate = Candidate(language="cuda", sources=(source,))
        assert own in {one.name for one in find_tunables(candidate, threads=1).of("declared")}


def test_a_device_without_such_units_gets_what_it_has() -> None:
    for write, multiplies in ((plain, True), (halves, False), (attention, True)):
        graph = graph_of(write)
        wanted = Wanted(dims=DIMS, arch="sm_70")
        text = cuda_kernel(graph, signature_of(graph), wanted).text
        assert ("launch_ffma(kernel_" in text) == multiplies
        assert "cp.async" not in text


def test_heads_that_registers_do_not_hold_are_two_products() -> None:
    graph = graph_of(attention)
    wanted = Wanted(dims=({"M": 64, "N": 64, "K": 256, "B": 1},))
    text = cuda_kernel(graph, signature_of(graph), wanted).text
    assert text.count("launch_mma(kernel_") == 2
