"""Kernels whose arrays come as boxes by the copy engine: right in the interpreter, and compiled."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.schedule_graphs import Case, F, softmax_nodes
from tests.unit.test_schedules_triton import RUN, given_names, inputs_of
from triton_boxes import COMPILES_LAUNCHES
from triton_kernels import needs_triton

from roofsmith.computation.building import ONE, ZERO, Builder
from roofsmith.computation.evaluate import evaluate, sizes
from roofsmith.computation.graph import Affine, Id
from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules.triton.module import triton_module
from roofsmith.proposers.schedules.wanted import Wanted

pytestmark = needs_triton

H = "float16"
SMALL = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 2}
WHOLE = {"M": 48, "N": 72, "K": 80}
TINY = {"M": 16, "N": 16, "K": 16}
ODD = {"M": 33, "N": 70, "K": 29}


@dataclass(frozen=True)
class Boxed:
    """A graph, sizes whose rows begin at multiples of 16 bytes, and sizes whose don't."""

    build: Callable[[Builder], dict[str, Id]]
    aligned: tuple[dict[str, int], ...] = (WHOLE, TINY)
    odd: tuple[dict[str, int], ...] = (ODD,)
    settings: dict[str, int] = field(default_factory=lambda: dict(SMALL))
    tf32: bool = False
    tolerance: float = 4e-3

    def case(self) -> Case:
        b = Builder()
        return Case(b.graph(**self.build(b)), (*self.aligned, *self.odd), tolerance=self.tolerance)

    def text(self, wanted: Wanted | None = None) -> str:
        """The module, its tunables as they are set here."""
        wanted = wanted or Wanted(dims=(*self.aligned, *self.odd), boxes=True, tf32=self.tf32)
        graph = self.case().graph
        text = triton_module(graph, given_names(graph), wanted)
        for name, value in self.settings.items():
            text = re.sub(rf"^{name} = \d+", f"{name} = {value}", text, flags=re.MULTILINE)
        return text


def gelu(b: Builder, x: Id) -> Id:
    half, one = b.constant(0.5, F), b.constant(1.0, F)
    part = b.apply("erf", b.apply("mul", x, b.constant(0.5**0.5, F)))
    return b.apply("mul", b.apply("mul", x, half), b.apply("add", one, part))


def linear(b: Builder) -> dict[str, Id]:
    """A bias and GELU behind it."""
    x, w, bias = b.input("x", H, "M", "K"), b.input("w", H, "N", "K"), b.input("bias", H, "N")
    z = b.apply("add", b.cast(b.contract("mk,nk->mn", x, w), F), b.cast(bias, F))
    return {"y": b.cast(gelu(b, z), H)}


def plain(dtype: str) -> Callable[[Builder], dict[str, Id]]:
    def build(b: Builder) -> dict[str, Id]:
        return {
            "y": b.contract(
                "mk,kn->mn", b.input("x", dtype, "M", "K"), b.input("w", dtype, "K", "N")
            )
        }

    return build


def turned(dtype: str) -> Callable[[Builder], dict[str, Id]]:
    """Both factors lie the other way, and so does the result."""

    def build(b: Builder) -> dict[str, Id]:
        x, w = b.input("x", dtype, "K", "M"), b.input("w", dtype, "N", "K")
        return {"y": b.transpose(b.contract("km,nk->mn", x, w), 1, 0)}

    return build


def batched(b: Builder) -> dict[str, Id]:
    """Four queries share a head of the right factor."""
    x, w = b.input("x", H, 2, 4, "M", "K"), b.input("w", H, 2, "N", "K")
    return {"y": b.contract("hgmk,hnk->hgmn", x, w)}


def added(b: Builder) -> dict[str, Id]:
    """With what was in the array, and rows that aren't its beginning."""
    x, c = b.input("x", H, 2, "M", "K"), b.input("c", H, "M", "N")
    m, k = Size.of("M"), Size.of("K")
    second = b.view(x, (m, k), [Affine(ONE, (ZERO, ZERO)), Affine(ZERO, (ONE, ZERO)),
                                Affine(ZERO, (ZERO, ONE))])  # fmt: skip
    z = b.contract("mk,kn->mn", second, b.input("w", H, "K", "N"))
    return {"y": b.apply("add", z, b.apply("mul", c, b.constant(0.5, H)))}


def dequantised(b: Builder) -> dict[str, Id]:
    """Bytes with a scale for each column."""
    x, w, s = b.input("x", H, "M", "K"), b.input("w", "int8", "N", "K"), b.input("s", H, "N")
    wide = b.apply("mul", b.cast(w, H), b.expand_dims(s, 1))
    return {"y": b.contract("mk,nk->mn", x, wide)}


def attention(
    dtype: str, *, after: int | None = None, masked: bool = False, scaled: bool = False
) -> Callable[[Builder], dict[str, Id]]:
    """Of four heads of queries, two of which share one of keys.

    Args:
        dtype: of everything.
        after: by how much the last key of a query may come after it.
        masked: whether something is added to scores.
        scaled: whether they are divided by a root of the width.
    """

    def build(b: Builder) -> dict[str, Id]:
        q = b.input("q", dtype, 2, 2, "M", "D")
        k, v = (b.input(name, dtype, 2, "N", "D") for name in "kv")
        scores = b.cast(b.contract("hgnd,hmd->hgnm", q, k), F)
        if scaled:
            scores = b.apply("div", scores, b.apply("sqrt", b.cast(b.dimension("D"), F)))
        else:
            scores = b.apply("mul", scores, b.constant(0.25, F))
        if masked:
            scores = b.apply("add", scores, b.cast(b.input("bias", dtype, "M", "N"), F))
        if after is not None:
            row = b.apply("add", b.arange("M"), b.constant(after, "int64"))
            test = b.apply("ge", b.expand_dims(row, 1), b.arange("N"))
            scores = b.apply("where", test, scores, b.constant(float("-inf"), F))
        share = b.cast(softmax_nodes(b, scores, 3), dtype)
        return {"o": b.contract("hgnm,hmd->hgnd", share, v)}

    return build


def interleaved(b: Builder) -> dict[str, Id]:
    """Heads beside one another in rows."""
    q, k, v = (b.reshape(b.input(n, F, "N", Size.of("D") * 2), "N", 2, "D") for n in "qkv")
    scores = b.apply("mul", b.contract("nhd,mhd->hnm", q, k), b.constant(0.25, F))
    o = b.contract("hnm,mhd->nhd", softmax_nodes(b, scores, 2), v)
    return {"o": b.reshape(o, "N", Size.of("D") * 2)}


BLOCKS = {"BLOCK_M": 16, "BLOCK_N": 16}
ALIGNED = ({"M": 40, "N": 56, "D": 24}, {"M": 16, "N": 16, "D": 16})
SLANTED = ({"M": 21, "N": 37, "D": 13},)
DEEP = {"M": 20, "N": 40, "K": 1104}
PARTS = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16}
CASES = {
    "linear": Boxed(linear),
    "linear_staying": Boxed(linear, settings={**SMALL, "PROGRAMS_PER_SM": 1}),
    "plain": Boxed(plain(H), odd=(ODD, {**WHOLE, "K": 28, "N": 36})),
    "plain_tf32": Boxed(plain(F), tf32=True),
    "turned": Boxed(turned(H)),
    "turned_tf32": Boxed(turned(F), tf32=True),
    "batched": Boxed(batched),
    "added": Boxed(added),
    "dequantised": Boxed(dequantised),
    "of_few_tiles": Boxed(linear, (DEEP,), ({**DEEP, "K": 1101}, WHOLE), PARTS),
    "small_and_large": Boxed(plain(H), (WHOLE, {"M": 1024, "N": 4096, "K": 16}), settings={}),
    "attention": Boxed(attention(H), ALIGNED, SLANTED, BLOCKS),
    "attention_causal": Boxed(attention(H, after=0, scaled=True), ALIGNED, SLANTED, BLOCKS),
    "attention_after": Boxed(attention(H, after=3), ALIGNED, SLANTED, BLOCKS),
    "attention_masked": Boxed(attention(H, after=0, masked=True), ALIGNED, SLANTED, BLOCKS),
    "attention_single": Boxed(attention(F, after=0), ALIGNED, SLANTED, BLOCKS, tolerance=1e-4),
    "attention_tf32": Boxed(attention(F), ALIGNED, SLANTED, BLOCKS, tf32=True),
    "attention_interleaved": Boxed(interleaved, ALIGNED, SLANTED, BLOCKS, tolerance=1e-4),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All kernels run in one process, whose results are beside them."""
    folder = tmp_path_factory.mktemp("boxes")
    asked: dict[str, list[Any]] = {}
    for name, boxed in CASES.items():
        case = boxed.case()
        few = Wanted(dims=case.dims, cores=1, boxes=True, tf32=boxed.tf32)
        text = boxed.text(few if "staying" in name else None)
        assert "if BOXES and all(boxes):" in text, name
        assert ("if parts > 1:" in text) == (name == "of_few_tiles"), name
        assert name.startswith("attention") == ("_attention" in text), name
        for part, dims, mine in (("aligned", boxed.aligned, True), ("odd", boxed.odd, False)):
            stops = "        raise AssertionError('by the other kernel')"
            start = "\n    else:" if mine else "\n    if BOXES and all(boxes):"
            kernels, host, launch = text.partition("def launch")
            launch = launch.replace(start, f"{start}\n{stops}")
            (folder / f"{name}_{part}.py").write_text(kernels + host + launch)
            asked[f"{name}_{part}"] = [arguments(case, one, folder, f"{name}_{part}_{at}")
                                       for at, one in enumerate(dims)]  # fmt: skip
    (folder / "asked.json").write_text(json.dumps(asked))
    finished = subprocess.run(
        [sys.executable, "-c", RUN, "asked.json"], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "TRITON_INTERPRET": "1"}, timeout=600, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr[-3000:]
    return folder


def arguments(case: Case, dims: dict[str, int], folder: Path, name: str) -> Any:
    """Dtypes of arrays, which are left in a file, and numbers."""
    given = inputs_of(case, dims)
    graph = case.graph
    dtypes = {node.name: node.dtype for node in graph.inputs()}
    for output, place in graph.outputs.items():
        given[output] = np.full(sizes(graph[place].shape, dims), 77)
        dtypes[output] = graph[place].dtype
    np.savez(folder / f"{name}.npz", **given)
    return dtypes, {one: dims[one] for one in given_names(graph) if one in dims}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_computes_what_the_graph_means(name: str, ran: Path) -> None:
    boxed = CASES[name]
    case = boxed.case()
    wide = replace(case.graph, nodes=tuple(
        replace(node, dtype=F if node.dtype == H else node.dtype) for node in case.graph.nodes
    ))  # fmt: skip
    for part, every in (("aligned", boxed.aligned), ("odd", boxed.odd)):
        for number, dims in enumerate(every):
            given = {name: one.astype(np.float32) if one.dtype == np.float16 else one
                     for name, one in inputs_of(case, dims).items()}  # fmt: skip
            wanted = evaluate(wide, given, dims)
            with np.load(ran / f"{name}_{part}_{number}_out.npz") as found:
                for output, right in wanted.items():
                    np.testing.assert_allclose(
                        found[output].reshape(right.shape), right.astype(np.float64),
                        rtol=3 * case.tolerance, atol=3 * case.tolerance,
                        err_msg=f"{output} {dims}",
                    )  # fmt: skip


LARGE = {"M": 2048, "N": 2048, "K": 256, "D": 64}


@pytest.mark.slow
def test_the_copy_engine_feeds_the_matrix_units(tmp_path: Path) -> None:
    asked = {}
    for name in ("linear", "plain_tf32", "batched", "attention_causal", "attention_tf32"):
        boxed = CASES[name]
        graph = boxed.case().graph
        wanted = Wanted(dims=(LARGE,), boxes=True, tf32=boxed.tf32, shared_bytes=227 * 1024)
        text = triton_module(graph, given_names(graph), wanted)
        (tmp_path / f"{name}.py").write_text(text)
        arrays = {node.name: (node.dtype, sizes(node.shape, LARGE)) for node in graph.inputs()}
        arrays |= {output: (graph[place].dtype, sizes(graph[place].shape, LARGE))
                   for output, place in graph.outputs.items()}  # fmt: skip
        asked[name] = arrays, {one: LARGE[one] for one in given_names(graph) if one in LARGE}
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    (tmp_path / "compiles.py").write_text(COMPILES_LAUNCHES)
    cache = {"TRITON_CACHE_DIR": str(tmp_path / "cache"), "TRITON_INTERPRET": "0"}
    finished = subprocess.run(
        [sys.executable, "compiles.py", "asked.json"], cwd=tmp_path, capture_output=True,
        text=True, env={**os.environ, **cache}, timeout=600, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr[-3000:]
    found = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [name for name, *_ in found] == list(asked)
    for name, kernels, multiplies, copies in found:
        assert multiplies, name
        assert copies, name
        assert any(one.endswith("_of_boxes") for one in kernels), name


def test_only_where_a_copy_engine_is_and_products_may_be_of_tf32() -> None:
    for name, wanted in (
        ("linear", Wanted()), ("linear", Wanted(tf32=True)), ("plain_tf32", Wanted(boxes=True)),
    ):  # fmt: skip
        assert "box" not in CASES[name].text(wanted)
