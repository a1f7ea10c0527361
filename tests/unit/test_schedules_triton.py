"""Triton kernels that are written from graphs compute, in the interpreter, what the graphs mean."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.schedule_graphs import CASES, Case, F, mean, softmax_nodes
from triton_kernels import needs_triton

from roofsmith.computation.building import Builder
from roofsmith.computation.evaluate import evaluate, sizes
from roofsmith.computation.graph import Graph
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.triton.module import TritonText, triton_kernel
from roofsmith.proposers.schedules.wanted import Wanted

pytestmark = needs_triton

REFUSED = frozenset(
    (
        "scatter_rows_in_place",
        "sorted_rows",
        "largest_of_rows",
        "places_of_rows",
        "names_that_loops_would_take",
    )
)
RUN = """
import importlib.util, json, sys
import numpy as np, torch
for name, calls in json.load(open(sys.argv[1])).items():
    spec = importlib.util.spec_from_file_location(name, f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for number, (dtypes, scalars) in enumerate(calls):
        with np.load(f"{name}_{number}.npz") as arrays:
            given = {n: torch.tensor(arrays[n]).to(getattr(torch, d)) for n, d in dtypes.items()}
        module.run_kernel(**given, **scalars)
        np.savez(f"{name}_{number}_out.npz", **{n: a.double().numpy() for n, a in given.items()})
"""


def norm_backward() -> Case:
    """Rows and sums of columns of the same arrays."""
    b = Builder()
    x, w, dy = b.input("x", F, "N", "D"), b.input("w", F, "D"), b.input("dy", F, "N", "D")
    rstd = b.input("rstd", F, "N")
    hat = b.apply("mul", x, b.expand_dims(rstd, 1))
    wdy = b.apply("mul", w, dy)
    along = mean(b, b.apply("mul", hat, wdy), 1, "D")
    dx = b.apply("mul", b.apply("sub", wdy, b.apply("mul", hat, along)), b.expand_dims(rstd, 1))
    dw = b.reduce("sum", b.apply("mul", hat, dy), 0)
    return Case(b.graph(dx=dx, dw=dw, db=b.reduce("sum", dy, 0)),
                ({"N": 37, "D": 101}, {"N": 1, "D": 3}), tolerance=1e-4)  # fmt: skip


def linear_with_gate() -> Case:
    """A product in 16 bits with something elementwise behind it, and another before it."""
    b = Builder()
    x, w = b.input("x", "float16", "M", "K"), b.input("w", "float16", "N", "K")
    bias = b.input("bias", "float16", "N")
    z = b.apply(
        "add", b.contract("mk,nk->mn", b.apply("max", x, b.constant(0.0, "float16")), w), bias
    )
    one = b.constant(1.0, F)
    wide = b.cast(z, F)
    gate = b.apply("div", one, b.apply("add", one, b.apply("exp", b.apply("neg", wide))))
    y = b.cast(b.apply("mul", wide, gate), "float16")
    return Case(
        b.graph(y=y), ({"M": 33, "N": 70, "K": 29}, {"M": 64, "N": 64, "K": 64}), tolerance=4e-3
    )


def long_rows() -> Case:
    """Longer than registers hold: online, piece by piece."""
    b = Builder()
    x = b.input("x", F, "N", "D")
    y, where, c = softmax_nodes(b, x, 1), b.reduce("argmax", x, 1), b.scan("sum", x, 1)
    return Case(b.graph(y=y, where=where, c=c), ({"N": 2, "D": 33001},), tolerance=2e-4)


def long_columns() -> Case:
    """The same of columns, among whose extremes the first counts."""
    b = Builder()
    x = b.input("x", F, "N", "D")
    high, low = b.reduce("argmax", x, 0), b.reduce("argmin", x, 0)
    draws = {"x": lambda rng, shape: rng.integers(0, 99, shape)}
    return Case(b.graph(high=high, low=low), ({"N": 1100, "D": 5},), draws=draws)


def few_long_rows() -> Case:
    """Too few for a program each to keep a device busy."""
    b = Builder()
    x = b.input("x", F, "N", "D")
    return Case(b.graph(y=softmax_nodes(b, x, 1)), ({"N": 2, "D": 70001},), tolerance=2e-4)


def short_columns() -> Case:
    """Registers hold them between the sum and what is made of it."""
    b = Builder()
    x = b.input("x", F, "B", "C", "N")
    size = b.expand_dims(b.reduce("sum", b.apply("mul", x, x), 1), 1)
    return Case(b.graph(y=b.apply("div", x, size)), ({"B": 2, "C": 5, "N": 67},))


EVERY = {
    **CASES, "norm_backward": norm_backward, "linear_with_gate": linear_with_gate,
    "long_rows": long_rows, "long_columns": long_columns, "few_long_rows": few_long_rows,
    "short_columns": short_columns,
}  # fmt: skip
RUNS = [name for name in EVERY if name not in REFUSED]


def given_names(graph: Graph) -> list[str]:
    counts = [end.count for end in graph.repeated().values()]
    shapes = [*counts, *(size for node in graph.nodes for size in node.shape)]
    dims = sorted({name for size in shapes for name in size.dims})
    arrays = [node.name for node in graph.inputs()]
    return list(dict.fromkeys([*arrays, *graph.outputs, *dims]))


def kernel_of(case: Case, *, knows: bool = True) -> TritonText:
    wanted = Wanted(dims=tuple(case.dims) if knows else ())
    return triton_kernel(case.graph, given_names(case.graph), wanted)


def inputs_of(case: Case, dims: Mapping[str, int]) -> dict[str, Any]:
    rng, given = np.random.default_rng(3), {}
    for node in case.graph.inputs():
        draw = case.draws.get(node.name, lambda r, s: r.standard_normal(s))
        value = np.asarray(dims.get(node.name, draw(rng, sizes(node.shape, dims))))
        given[node.name] = value.astype(node.dtype)
    return given


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All kernels run in one process, whose results are beside them."""
    folder = tmp_path_factory.mktemp("triton")
    asked: dict[str, list[Any]] = {}
    for name in RUNS:
        case = EVERY[name]()
        graph = case.graph
        kernel = kernel_of(case)
        entry = f"\n\ndef run_kernel({', '.join(given_names(graph))}):\n    {kernel.call}\n"
        (folder / f"{name}.py").write_text(kernel.text + entry)
        calls = asked.setdefault(name, [])
        for number, dims in enumerate(case.dims):
            given = inputs_of(case, dims)
            dtypes = {node.name: node.dtype for node in graph.inputs() if node.shape}
            arrays = {array: given[array] for array in dtypes}
            for output, place in graph.outputs.items():
                if output not in arrays:
                    arrays[output] = np.full(sizes(graph[place].shape, dims), 77)
                    dtypes[output] = graph[place].dtype
            scalars = {n: given[n].item() for n in given if n not in arrays}
            scalars |= {n: dims[n] for n in given_names(graph) if n in dims}
            np.savez(folder / f"{name}_{number}.npz", **arrays)
            calls.append((dtypes, scalars))
    (folder / "asked.json").write_text(json.dumps(asked))
    finished = subprocess.run(
        [sys.executable, "-c", RUN, "asked.json"], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "TRITON_INTERPRET": "1"}, timeout=600, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr[-3000:]
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_computes_what_the_graph_means(name: str, ran: Path) -> None:
    case = EVERY[name]()
    for number, dims in enumerate(case.dims):
        wanted = evaluate(case.graph, inputs_of(case, dims), dims)
        with np.load(ran / f"{name}_{number}_out.npz") as found:
            for output, right in wanted.items():
                np.testing.assert_allclose(
                    found[output].reshape(right.shape), right.astype(np.float64),
                    rtol=3 * case.tolerance, atol=3 * case.tolerance, err_msg=f"{output} {dims}",
                )  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFUSED & EVERY.keys()))
def test_refuses_what_depends_on_an_order(name: str) -> None:
    with pytest.raises(NoSchedule):
        kernel_of(EVERY[name]())


@pytest.mark.parametrize("name", RUNS)
def test_is_written_without_known_sizes_too(name: str) -> None:
    compile(kernel_of(EVERY[name](), knows=False).text, name, "exec")


def test_walks_memory_as_rarely_as_possible() -> None:
    for name, kernels in (
        ("attention", {"out_attention"}),
        ("linear_with_gate", {"t1_map", "y_product"}),
        ("softmax", {"y_rows", "y_long_rows"}),
        ("short_columns", {"y_columns", "y_long_columns"}),
    ):
        text = kernel_of(EVERY[name]()).text
        written = {line.split("(")[0][4:] for line in text.splitlines() if line.startswith("def ")}
        assert written - {"launch", "place", "larger", "smaller"} == kernels


def test_programs_share_few_long_rows() -> None:
    grids = re.findall(r"_rows\[\(([^\]]*)\)\]", kernel_of(few_long_rows()).text)
    assert [grid for grid in grids if "parts" in grid] == ["N, parts", "N, parts"]


def test_the_same_text_in_every_process() -> None:
    program = (
        "from tests.unit.schedule_graphs import CASES\n"
        "from test_schedules_triton import kernel_of\n"
        "print(kernel_of(CASES['group_norm_reshapes']()).text)"
    )
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parents[1]), *sys.path])
    texts = {
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in "01"
    }  # fmt: skip
    assert len(texts) == 1
