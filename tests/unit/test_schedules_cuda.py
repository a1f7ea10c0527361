"""CUDA kernels that are written from graphs compute, on the host, what the graphs mean."""

from __future__ import annotations

import ctypes
import math
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_on_host import compile_on_host
from schedule_graphs import ODD, Case, F, mean, softmax_nodes, with_nan
from test_schedules import called, signature_of
from test_schedules_triton import EVERY as BESIDES

from roofsmith.computation.building import ONE, ZERO, Builder
from roofsmith.computation.evaluate import evaluate, sizes
from roofsmith.computation.graph import Affine
from roofsmith.computation.sizes import Size, shape_of
from roofsmith.cuda_programs import find_program
from roofsmith.proposers.schedules.cuda.module import CudaText, cuda_kernel
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.wanted import Wanted


def long_sums() -> Case:
    """Of few rows and columns, which blocks share."""
    b = Builder()
    x = b.input("x", F, "N", "D")
    y = b.input("y", F, "D", "N")
    total = b.reshape(b.reduce("sum", x), 1)
    return Case(
        b.graph(
            total=total, top=b.reduce("max", x, 1), down=b.reduce("sum", y, 0),
            scaled=b.scan("sum", b.apply("mul", x, x), 1), where=b.reduce("argmax", x, 1),
            low=b.reduce("argmin", y, 0), running=b.scan("max", y, 0),
        ),
        ({"N": 2, "D": 9001}, {"N": 4, "D": 4640}, {"N": 1, "D": 1}), tolerance=2e-4,
    )  # fmt: skip


def long_sorts() -> Case:
    """Longer than a block's shared memory."""
    b = Builder()
    x = b.input("x", F, "N", "D")
    return Case(
        b.graph(down=b.sort(x, 1, descending=True), order=b.sort(x, 1, order=True)),
        ({"N": 2, "D": 2100},),
        {"x": with_nan},
    )


def statistics_of_channels() -> Case:
    """Sums along two axes of which one is in one piece."""
    b = Builder()
    x = b.input("x", F, "B", "C", "D")
    s = b.reduce("sum", x, 0, 2)
    q = b.reduce("sum", b.apply("mul", x, x), 0, 2)
    return Case(
        b.graph(s=s, q=q), ({"B": 5, "C": 3, "D": 1028}, {"B": 1, "C": 1, "D": 7}), tolerance=1e-4
    )


def variances() -> Case:
    """Of columns, rows and channels far from zero, in one pass over what no register holds."""
    b = Builder()
    x = b.apply("add", b.input("x", F, "B", "N", "D"), b.constant(300.0, F))

    def normal(*axes: int) -> Any:
        size = math.prod((Size.of("BND"[axis]) for axis in axes), start=ONE)
        centre = b.apply("div", b.reduce("sum", x, *axes), b.dimension(size, F))
        for axis in sorted(axes):
            centre = b.expand_dims(centre, axis)
        centred = b.apply("sub", x, centre)
        return centre, b.reduce("sum", b.apply("mul", centred, centred), *axes)

    columns, rows, channels = normal(0), normal(2), normal(0, 2)
    return Case(
        b.graph(
            columns=columns[1], rows=rows[1], channels=channels[1],
            centred=b.apply("sub", x, rows[0]), middle=b.reshape(channels[0], "N"),
        ),
        ({"B": 70, "N": 3, "D": 5}, {"B": 2, "N": 2, "D": 20000}, {"B": 2100, "N": 1, "D": 8}),
        tolerance=1e-3,
    )  # fmt: skip


def variances_of_large_numbers() -> Case:
    """Whose squares no float holds, though those of what they differ by are small."""
    b = Builder()
    x, count = b.input("x", F, "N", "D"), b.dimension(Size.of("N"), F)
    centre = b.apply("div", b.reduce("sum", x, 0), count)
    centred = b.apply("sub", x, b.expand_dims(centre, 0))
    return Case(
        b.graph(y=b.reduce("sum", b.apply("mul", centred, centred), 0)), ({"N": 5000, "D": 3},),
        {"x": lambda rng, shape: 3e19 + 1e17 * rng.standard_normal(shape)}, tolerance=2e-2,
    )  # fmt: skip


def few_long_rows() -> Case:
    """Of a softmax and a norm, whose passes all blocks share."""
    b = Builder()
    x, w = b.input("x", F, "N", "D"), b.input("w", F, "D")
    centred = b.apply("sub", x, mean(b, x, 1, "D"))
    var = mean(b, b.apply("mul", centred, centred), 1, "D")
    scaled = b.apply("div", centred, b.apply("sqrt", var))
    return Case(
        b.graph(y=softmax_nodes(b, x, 1), z=b.apply("mul", scaled, w)),
        ({"N": 2, "D": 16385}, {"N": 1, "D": 20000}), tolerance=2e-4,
    )  # fmt: skip


def turned_halves(dtype: str = "float16") -> Case:
    """A rotary embedding, which joins two halves of each row, and a transpose in 16 bits."""
    b = Builder()
    x, c = b.input("x", dtype, "N", 2, "D"), b.input("c", F, "D")
    whole = [Affine(ZERO, (ONE, ZERO)), Affine(ZERO, (ZERO, ONE))]
    halves_of = [[whole[0], Affine(Size.of(at), (ZERO, ZERO)), whole[1]] for at in (0, 1)]
    one, two = (b.cast(b.view(x, shape_of("N", "D"), half), F) for half in halves_of)
    left = b.apply("sub", b.apply("mul", one, c), two)
    right = b.apply("add", b.apply("mul", two, c), one)
    y = b.cast(b.concat(1, left, right), dtype)
    return Case(b.graph(y=y, t=b.transpose(b.cast(one, dtype), 1, 0)), ODD, tolerance=2e-3)


def tall_columns() -> Case:
    """A softmax of columns whose threads share them."""
    b = Builder()
    x = b.input("x", F, "N", "D")
    return Case(b.graph(y=softmax_nodes(b, x, 0)), ({"N": 300, "D": 68}, {"N": 131, "D": 5}))


def triangular() -> Case:
    """What is on one side of the diagonal, where no vector is on one side as a whole."""
    b = Builder()
    x = b.input("x", F, "N", "D")
    row, column = b.expand_dims(b.arange("N"), 1), b.arange("D")
    padded = b.pad(x, shape_of(0, 4), shape_of("N", Size.of("D") + 8), 1.0)
    upper = b.apply("where", b.apply("ge", column, row), x, b.constant(0.0, F))
    return Case(b.graph(y=upper, z=padded), ODD)


def halves(dtype: str = "float16") -> Case:
    """Rows of 16-bit floats, with a choice of whole rows, and short rows."""
    b = Builder()
    x, t = b.input("x", dtype, "N", "D"), b.input("t", F, "N", 12)
    y = b.input("y", dtype, 3, "D")
    both = b.concat(0, x, y)
    tall = b.apply("mul", b.cast(both, F), b.constant(2.0, F))
    return Case(b.graph(z=b.cast(tall, dtype), s=softmax_nodes(b, t, 1)), ODD, tolerance=2e-3)


EVERY = {
    **BESIDES, "few_long_rows": few_long_rows,
    "turned_halves": turned_halves,
    "triangular": triangular,
    "tall_columns": tall_columns,
    "halves": halves, "long_sums": long_sums, "long_sorts": long_sorts,
    "statistics_of_channels": statistics_of_channels, "variances": variances,
    "variances_of_large_numbers": variances_of_large_numbers,
}  # fmt: skip
RUNS = list(EVERY)


def kernel_of(case: Case, *, knows: bool = True) -> CudaText:
    wanted = Wanted(dims=tuple(case.dims) if knows else ())
    return cuda_kernel(case.graph, signature_of(case.graph), wanted)


def inputs_of(case: Case, dims: Mapping[str, int]) -> dict[str, Any]:
    rng, given = np.random.default_rng(3), {}
    for node in case.graph.inputs():
        draw = case.draws.get(node.name, lambda r, s: r.standard_normal(s))
        value = np.asarray(dims.get(node.name, draw(rng, sizes(node.shape, dims))))
        given[node.name] = value.astype(node.dtype)
    return given


class _Entry:
    """A library with one file's entry by its usual name."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self.solve = library[f"solve_{name}"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    texts = {name: kernel_of(EVERY[name]()).text for name in RUNS}
    return compile_on_host(texts, tmp_path_factory.mktemp("cuda"))


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_computes_what_the_graph_means(name: str, library: ctypes.CDLL) -> None:
    case = EVERY[name]()
    signature = signature_of(case.graph)
    for dims in case.dims:
        given = inputs_of(case, dims)
        wanted = evaluate(case.graph, given, dims)
        with np.errstate(all="ignore"):
            found = called(_Entry(library, name), signature, case.graph, given, dims)
        for output, right in wanted.items():
            got = found[output].astype(np.float64).reshape(right.shape)
            scale = max(1.0, float(np.abs(right).max(initial=0.0)))
            np.testing.assert_allclose(
                got, right.astype(np.float64), rtol=case.tolerance, atol=case.tolerance * scale,
                err_msg=f"{output} of {name} at {dims}",
            )  # fmt: skip


def test_refuses_what_depends_on_an_order_of_threads() -> None:
    b = Builder()
    x, at, u = b.input("x", F, "N"), b.input("at", "int64", "D"), b.input("u", F, "D")
    case = Case(b.graph(x=b.scatter("set", x, [at], u)), ODD)
    with pytest.raises(NoSchedule, match="order"):
        kernel_of(case)


@pytest.mark.slow
@pytest.mark.skipif(find_program("nvcc") is None, reason="no nvcc")
def test_is_cuda(tmp_path: Path) -> None:
    names = ("softmax", "half_precision_sum", "argmax_rows", "long_sums", "histogram")
    cases = [*(EVERY[name]() for name in names), halves("bfloat16")]
    texts = [kernel_of(one).text.replace("solve(", f"solve{at}(") for at, one in enumerate(cases)]
    source = tmp_path / "all.cu"
    parts = [
        f"namespace n{at} {{\n{re.sub('#include.*', '', text)}\n}}" for at, text in enumerate(texts)
    ]
    includes = dict.fromkeys(re.findall("#include.*", "".join(texts)))
    source.write_text("\n".join([*includes, *parts]))
    command = [
        str(find_program("nvcc")), "-arch=sm_90", "-std=c++17", "-cubin", "-O1",
        "-Werror", "all-warnings", str(source), "-o", str(tmp_path / "all.cubin"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("name", RUNS)
def test_is_written_without_known_sizes_too(name: str) -> None:
    assert "extern" in kernel_of(EVERY[name](), knows=False).text
