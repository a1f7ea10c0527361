"""Kernels that are written from graphs compute what the graphs mean."""

from __future__ import annotations

import ctypes
import re
import subprocess
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from schedule_graphs import CASES, Case, F
from small_references import NUMPY

from roofsmith.computation.building import ONE, ZERO, Builder
from roofsmith.computation.evaluate import evaluate, sizes
from roofsmith.computation.graph import Affine, Graph
from roofsmith.computation.reading.reader import ReferenceReader
from roofsmith.computation.reading.subject import RunReference
from roofsmith.computation.sizes import Size, shape_of
from roofsmith.domain.kernel import Parameter, Signature
from roofsmith.proposers.schedules.c_file import c_kernel
from roofsmith.proposers.schedules.in_place import repeated_in_place
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.partition import partition
from roofsmith.proposers.schedules.strides import vector_axis

GUARD = 64


def names_that_are_made_of_others() -> Case:
    b = Builder()
    x, row, odd = b.input("best_", F, "N", "D"), b.input("row_", F, "D"), b.input("top_nan", F, "N")
    joined = b.apply("add", b.apply("mul", x, row), b.expand_dims(odd, 1))
    order = b.sort(joined, 1, order=True)
    first = b.view(b.sort(joined, 1), shape_of("N", "K"),
                   [Affine(ZERO, (ONE, ZERO)), Affine(ZERO, (ZERO, ONE))])  # fmt: skip
    more = {"order_": order, "filled_": b.reduce("max", joined, 1), "sorted_": joined,
            "at_": b.reshape(first, Size.of("N") * Size.of("K")), "sum_parts": b.apply("exp", x),
            "sorted__new": b.reduce("sum", joined, 1)}  # fmt: skip
    dims = ({"N": 5, "D": 101, "K": 7}, {"N": 1, "D": 1, "K": 1}, {"N": 2, "D": 300, "K": 3})
    return Case(b.graph(**more), dims)


EVERY = {**CASES, "names_that_are_made_of_others": names_that_are_made_of_others}


def signature_of(graph: Graph) -> Signature:
    """Inputs, results, then dims and numbers."""
    arrays = {node.name: node for node in graph.inputs() if node.shape}
    parameters = [
        Parameter(name=name, role="output" if name in graph.outputs else "input", dtype=node.dtype)
        for name, node in arrays.items()
    ]
    parameters += [
        Parameter(name=name, role="output", dtype=graph[place].dtype)
        for name, place in graph.outputs.items() if name not in arrays
    ]  # fmt: skip
    numbers = {node.name: node.dtype for node in graph.inputs() if not node.shape}
    counts = [end.count for end in graph.repeated().values()]
    sizes = [*counts, *(size for node in graph.nodes for size in node.shape)]
    dims = sorted({name for size in sizes for name in size.dims})
    parameters += [Parameter(name=n, role="size", dtype="int32") for n in dims]
    parameters += [
        Parameter(name=n, role="size", dtype=d) for n, d in numbers.items() if n not in dims
    ]
    return Signature(parameters=tuple(parameters))


def built(text: str, language: str, flags: tuple[str, ...], folder: Path) -> ctypes.CDLL:
    source = folder / ("kernel.c" if language == "c" else "kernel.cpp")
    source.write_text(text)
    library = folder / "kernel.so"
    compiler = "gcc" if language == "c" else "g++"
    command = [
        compiler,
        "-O3",
        "-march=native",
        "-Wall",
        "-Wextra",
        "-Werror=uninitialized",
        "-Wno-unused-parameter",
    ]
    subprocess.run(
        [*command, "-shared", "-fPIC", *flags, str(source), "-o", str(library), "-lm"], check=True
    )
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize("name", EVERY)
def test_computes_what_the_graph_means(name: str, tmp_path: Path) -> None:
    agrees(name, EVERY[name](), tmp_path)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_what_takes_long_and_depends_on_a_byte_is_looked_up(dtype: str, tmp_path: Path) -> None:
    b = Builder()
    x = b.cast(b.input("x", dtype, "N", "D"), "float64")
    bright = b.apply("pow", b.apply("abs", x), b.constant(1 / 2.2, "float64"))
    most = b.apply("min", bright, b.constant(9.0, "float64"))
    graph = b.graph(y=b.cast(most, "uint8"), s=b.reduce("sum", bright, 1))
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    case = Case(
        graph,
        ({"N": 70, "D": 101}, {"N": 1, "D": 1}),
        {"x": lambda rng, shape: rng.integers(low, high, shape, endpoint=True)},
    )
    text = agrees("bytes", case, tmp_path, dims=case.dims)
    assert "table[at0_]" in text
    assert "table2[at0_]" in text
    assert "table" not in agrees("few bytes", case, tmp_path, dims=case.dims[1:])


def test_a_value_that_is_written_twice_has_a_name() -> None:
    b = Builder()
    root = b.apply("exp", b.input("x", "float64", "N"))
    top = b.apply(
        "min", b.apply("max", root, b.constant(0.0, "float64")), b.constant(1.0, "float64")
    )
    graph = b.graph(y=top)
    text = c_kernel(graph, signature_of(graph), language="c", threads=2).text
    assert text.count("roofsmith_exp(") == 2  # one is its definition


def test_loops_over_a_few_neighbours_are_left_to_the_compiler() -> None:
    graph = CASES["triples"]().graph
    text = c_kernel(graph, signature_of(graph), language="c", threads=2).text
    assert not re.search(r"omp simd[^\n]*\n\s*for \(\S+ (\w+) = 0; \1 < 3;", text)


def with_nan(part: float, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return np.where(rng.random(shape) < part, np.nan, rng.standard_normal(shape))


def distances(b: Builder, op: str) -> int:
    x, c = b.input("x", F, "N", "D"), b.input("c", F, "K", "D")
    apart = b.apply("sub", b.expand_dims(x, 1), b.expand_dims(c, 0))
    return b.reduce("sum", b.apply(op, apart, *[apart] * (op == "mul")), 2)


@pytest.mark.parametrize("name", ["few", "many", "looked at again"])
def test_short_sums_for_each_of_many_go_along_the_many(name: str, tmp_path: Path) -> None:
    b = Builder()
    apart = distances(b, "abs" if name == "many" else "mul")
    results = {"y": apart, "top": b.reduce("max", apart, 1)}
    if name == "few":
        results = {"label": b.reduce("argmin", apart, 1), "least": b.reduce("min", apart, 1)}
    elif name == "many":
        results = {"y": b.apply("sqrt", apart)}
    dims = ({"N": 301, "K": 70 if name == "many" else 7, "D": 9}, {"N": 1, "K": 1, "D": 1},
            {"N": 64, "K": 130, "D": 17}, {"N": 3, "K": 2, "D": 200})  # fmt: skip
    case = Case(b.graph(**results), dims, {"x": partial(with_nan, 0.002)})
    text = agrees(name, case, tmp_path, dims=dims[:1])
    assert ("turned" in text) == (name != "looked at again")


@pytest.mark.parametrize(
    "name", ["softmax", "softmax_in_place", "argmax_rows", "layer_norm", "log_softmax_loss"]
)
def test_short_rows_go_side_by_side(name: str, tmp_path: Path) -> None:
    case = EVERY[name]()
    case = replace(case, dims=({"N": 70, "D": 11}, *case.dims))
    assert "[COLUMNS]" in agrees(name, case, tmp_path, dims=case.dims[:1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_nan_among_several_is_their_largest_and_smallest(dtype: str, tmp_path: Path) -> None:
    b = Builder()
    rows = [b.input(name, dtype, "N") for name in "pqrst"]
    results = {}
    for op in ("max", "min"):
        for count in (3, 4, 5):
            results[f"{op}{count}"] = reduce(partial(b.apply, op), rows[:count])
    draws = dict.fromkeys("pqrst", partial(with_nan, 0.2))
    agrees("several", Case(b.graph(**results), ({"N": 333}, {"N": 1}), draws), tmp_path)


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_masks_choose_between_values_also_behind_a_logarithm(language: str, tmp_path: Path) -> None:
    b = Builder()
    m, n, x = b.input("m", "bool", "N"), b.input("n", "bool", "N"), b.input("x", F, "N")
    chosen = b.apply("or", m, b.apply("gt", x, b.constant(0.0, F)))
    both = b.apply("and", m, b.apply("not", n))
    graph = b.graph(y=b.apply("where", chosen, b.apply("log", x), x), both=both,
                    any=b.reduce("any", b.apply("xor", m, n)))  # fmt: skip
    draws = dict.fromkeys("mn", lambda rng, shape: rng.random(shape) < 0.5)
    agrees("masks", Case(graph, ({"N": 333}, {"N": 1}), draws, language=language), tmp_path)


def test_coordinates_need_no_loop_nor_memory_of_their_own(tmp_path: Path) -> None:
    b = Builder()
    x, mass = b.input("x", F, "N", 3), b.input("mass", F, "N")
    apart = b.apply("sub", b.expand_dims(x, 0), b.expand_dims(x, 1))
    square = b.apply("add", b.reduce("sum", b.apply("mul", apart, apart), 2), b.constant(0.01, F))
    pull = b.apply("div", mass, b.apply("mul", square, b.apply("sqrt", square)))
    force = b.reduce("sum", b.apply("mul", apart, b.expand_dims(pull, 2)), 1)
    corner = b.reduce("max", b.apply("abs", x), 0)
    dims = ({"N": 301}, {"N": 1}, {"N": 2})
    case = Case(b.graph(force=force, corner=corner), dims, {"x": partial(with_nan, 0.002)})
    assert "work_space" not in agrees("bodies", case, tmp_path, dims=dims[:1])


def test_tiny_products_are_written_out(tmp_path: Path) -> None:
    case = CASES["tiny_product"]()
    text = agrees("tiny", case, tmp_path, dims=case.dims)
    assert "sum" not in text.partition("solve")[2].partition("*/")[2]
    assert "omp simd" not in text


def agrees(name: str, case: Case, tmp_path: Path, **options: Any) -> str:
    """The kernel of a graph, which computes the same."""
    graph, signature = case.graph, signature_of(case.graph)
    kernel = c_kernel(graph, signature, language=case.language, threads=2, **options)
    library = built(kernel.text, case.language, kernel.flags, tmp_path)
    for dims in case.dims:
        given = {}
        rng = np.random.default_rng(3)
        for node in graph.inputs():
            shape = sizes(node.shape, dims)
            draw = case.draws.get(node.name, lambda r, s: r.standard_normal(s))
            given[node.name] = np.asarray(dims.get(node.name, draw(rng, shape))).astype(node.dtype)
        wanted = evaluate(graph, given, dims)
        with np.errstate(all="ignore"):
            found = called(library, signature, graph, given, dims)
        for output, right in wanted.items():
            got = found[output].astype(np.float64).reshape(right.shape)
            scale = max(1.0, float(np.abs(right).max(initial=0.0)))
            np.testing.assert_allclose(
                got, right.astype(np.float64), rtol=case.tolerance, atol=case.tolerance * scale,
                err_msg=f"{output} of {name} at {dims}",
            )  # fmt: skip
    return kernel.text


def called(library, signature, graph, given, dims):  # type: ignore[no-untyped-def]
    """What the kernel writes, between guards that it may not touch."""
    memory, arguments, results = {}, [], {}
    for p in signature.parameters:
        if p.role == "size":
            value = dims[p.name] if p.name in dims else given[p.name]
            kind = {"int32": ctypes.c_int, "float32": ctypes.c_float, "float64": ctypes.c_double}[
                p.dtype
            ]
            arguments.append(kind(value.item() if hasattr(value, "item") else value))
            continue
        if p.name in given:
            flat = given[p.name].ravel()
        else:
            shape = sizes(graph[graph.outputs[p.name]].shape, dims)
            flat = np.full(int(np.prod(shape)), 77, dtype=p.dtype)
        whole = np.full(flat.size + 2 * GUARD, 99, dtype=p.dtype)
        whole[GUARD : GUARD + flat.size] = flat
        memory[p.name] = whole
        arguments.append(ctypes.c_void_p(whole[GUARD:].ctypes.data))
        if p.role == "output":
            results[p.name] = whole[GUARD : GUARD + flat.size]
    library.solve(*arguments)
    for whole in memory.values():
        edges = np.concatenate([whole[:GUARD], whole[-GUARD:]])
        assert (edges == np.full(1, 99, dtype=whole.dtype)).all()
    return results


def test_what_is_not_the_whole_truth_is_refused() -> None:
    b = Builder()
    x = b.input("x", "float32", "N")
    unknown = b.opaque("fft", [x], "line 3", b.shape(x), "float32")
    graph = b.graph(y=unknown)
    with pytest.raises(NoSchedule, match="line 3"):
        c_kernel(graph, signature_of(graph), language="c", threads=1)


def test_arrays_without_elements_are_refused() -> None:
    b = Builder()
    x = b.input("x", "float32", "N", 0)
    graph = b.graph(y=b.apply("exp", x))
    with pytest.raises(NoSchedule, match="without elements"):
        c_kernel(graph, signature_of(graph), language="c", threads=1)


def test_an_array_that_the_entry_lacks_is_refused() -> None:
    b = Builder()
    graph = b.graph(y=b.apply("exp", b.input("x", "float32", "N")))
    signature = signature_of(graph)
    without = signature.model_copy(update={"parameters": signature.parameters[1:]})
    with pytest.raises(NoSchedule, match="x"):
        c_kernel(graph, without, language="c", threads=1)


@pytest.mark.parametrize("name", ["sweeps_over_two_arrays", "powers_of_a_matrix"])
def test_what_comes_again_shares_memory(name: str) -> None:
    graph = CASES[name]().graph
    text = c_kernel(graph, signature_of(graph), language="c", threads=2).text
    assert text.count("work_space(") <= 1 + 2 + 1


@pytest.mark.parametrize(
    ("name", "arrays"), [("three_arrays_overwritten", 0), ("sweeps_in_place", 2)]
)
def test_what_is_read_last_where_it_is_written_needs_no_other_array(name: str, arrays: int) -> None:
    program = repeated_in_place(partition(CASES[name]().graph))
    assert len([one for one in program.buffers.values() if one.role == "scratch"]) == arrays


def test_a_matrix_beside_vectors_decides_which_loop_is_for_lanes() -> None:
    b = Builder()
    a, x = b.input("a", F, "N", "D"), b.input("x", F, "N")
    sums = b.reduce("sum", b.apply("mul", b.apply("mul", a, b.expand_dims(x, 1)),
                                   b.expand_dims(b.input("z", F, "N"), 1)), 0)  # fmt: skip
    program = partition(b.graph(y=sums))
    (group,) = program.groups
    assert vector_axis(group, program.places.meaning()) in group.outer


def test_a_dim_that_only_values_depend_on_is_needed() -> None:
    b = Builder()
    graph = b.graph(y=b.apply("add", b.input("x", "int64", "N"), b.dimension("W")))
    signature = signature_of(graph)
    with pytest.raises(NoSchedule, match="W"):
        c_kernel(graph, signature, language="c", threads=1)


def test_a_name_that_is_a_function_there_is_refused() -> None:
    b = Builder()
    graph = b.graph(y=b.apply("exp", b.input("roofsmith_expf", "float32", "N")))
    with pytest.raises(NoSchedule, match="roofsmith_expf"):
        c_kernel(graph, signature_of(graph), language="c", threads=1)


def test_short_windows_of_any_size_go_along_rows(tmp_path: Path) -> None:
    b = Builder()
    high, size, step = map(Size.of, ("H", "K", "S"))
    places = (high - size) // step + 1
    x = b.input("x", F, "N", "H", "H")
    strides = ((ZERO, ZERO, ONE, ZERO, ZERO), (step, ZERO, ZERO, ONE, ZERO),
               (ZERO, step, ZERO, ZERO, ONE))  # fmt: skip
    index = [Affine(ZERO, one) for one in strides]
    seen = b.view(x, (places, places, Size.of("N"), size, size), index)
    graph = b.graph(y=b.transpose(b.reduce("sum", seen, 3, 4), 2, 0, 1))
    dims = ({"N": 3, "H": 67, "K": 3, "S": 2}, {"N": 1, "H": 5, "K": 5, "S": 1})
    signature = signature_of(graph)
    kernel = c_kernel(graph, signature, language="c", threads=2, dims=dims)
    assert "[COLUMNS]" in kernel.text
    library = built(kernel.text, "c", kernel.flags, tmp_path)
    for one in dims:
        drawn = np.random.default_rng(1).standard_normal(sizes(b.shape(x), one))
        given = {"x": drawn.astype(F)}
        found = called(library, signature, graph, given, one)["y"]
        wanted = evaluate(graph, given, one)["y"].ravel()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "sweeps",
        "three_fields",
        "wave",
        "averages_along_rows",
        "power_steps",
        "sweeps_by_number",
        "fewer_sweeps",
        "half_sweeps",
        "sweeps_beside_others",
        "sweeps_in_sweeps",
    ],
)
def test_repeats_what_needs_the_iteration_before(name: str, tmp_path: Path) -> None:
    one = NUMPY[name]
    (tmp_path / "reference.py").write_text(one.text("numpy"))
    subject = RunReference(tmp_path / "reference.py", None, (), None)
    graph = ReferenceReader(subject, [one.dims]).read()
    assert graph.notes == ()
    assert len(graph.repeated()) == 1
    signature = signature_of(graph)
    kernel = c_kernel(graph, signature, language="c", threads=2, dims=[one.dims])
    assert "_tile" not in kernel.text  # of what is turned whole, in each step
    library = built(kernel.text, "c", kernel.flags, tmp_path)
    for dims in (one.dims, {**one.dims, "T": 1}, {**one.dims, "T": 0}, dict.fromkeys(one.dims, 5)):
        dims = {name: size for name, size in dims.items() if name in one.dims}
        given = subject.draw(dims, seed=2).values
        wanted = subject.results(given)
        found = called(library, signature, graph, given, dims)
        for output in graph.outputs:
            np.testing.assert_allclose(found[output].reshape(wanted[output].shape), wanted[output],
                                       rtol=1e-4, atol=1e-4)  # fmt: skip


def test_what_is_stored_and_read_in_one_group_alone_takes_no_others_memory(tmp_path: Path) -> None:
    one = NUMPY["window_by_window"]
    (tmp_path / "reference.py").write_text(one.text("numpy"))
    subject = RunReference(tmp_path / "reference.py", None, (), None)
    agrees("windows", Case(ReferenceReader(subject, [one.dims]).read(), (one.dims,)), tmp_path)
