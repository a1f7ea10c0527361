"""Graphs are counted as PyTorch counts, and read in a process that may do anything."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from small_references import NUMPY, TORCH, SmallReference
from typer.testing import CliRunner

from roofsmith.cli import steps  # noqa: F401 - it registers the command
from roofsmith.cli.root import cli
from roofsmith.computation import read
from roofsmith.computation.building import Builder
from roofsmith.computation.counts import counted
from roofsmith.computation.documents import as_document, from_document
from roofsmith.computation.graph import Graph
from roofsmith.computation.read import Computation, read_reference
from roofsmith.computation.reading.fitting import Fit
from roofsmith.computation.reading.reader import ReferenceReader
from roofsmith.computation.reading.subject import RunReference
from roofsmith.computation.shortening import short_lines
from roofsmith.computation.simplify import simplified
from roofsmith.computation.sizes import Size
from roofsmith.domain.kernel import SourceFile
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload

VECTOR = {"x": "made.f(N)"}, {"y": "out(N)"}


def _asked(one: SmallReference, library: str = "numpy") -> Computation:
    kernel = SourceFile(path="kernel.c", text="void solve(const float* x, float* y, int N) {}\n")
    reference = SourceFile(path="reference.py", text=one.text(library))
    workloads = (Workload(dims=one.dims),)
    target = Target(name="t", language="c", kernel=kernel, reference=reference, workloads=workloads)
    return read_reference(target)


@pytest.mark.parametrize("name", ["linear_gelu", "conv_2d", "conv_strided"])
def test_contractions_are_counted_as_pytorch_counts_them(tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    one = TORCH[name]
    path = tmp_path / "reference.py"
    path.write_text(one.text("torch"))
    subject = RunReference(path, None, (), None)
    graph = ReferenceReader(subject, [one.dims]).read()
    with FlopCounterMode(display=False) as counter:
        subject.module.reference(**subject.draw(one.dims).values)
    flops = counted(graph).contraction_flops.at(one.dims)
    assert flops == counter.get_total_flops()


def test_bytes_are_those_of_every_input_and_output_once(tmp_path: Path) -> None:
    path = tmp_path / "reference.py"
    path.write_text(NUMPY["softmax"].text("numpy"))
    work = counted(
        ReferenceReader(RunReference(path, None, (), None), [NUMPY["softmax"].dims]).read()
    )
    nd = Size.of("N") * Size.of("D")
    assert (work.read_bytes, work.written_bytes, work.flops) == (4 * nd, 4 * nd, 5 * nd)


def test_sweeps_are_counted_as_often_as_they_pass_over_what_they_sweep(tmp_path: Path) -> None:
    path = tmp_path / "reference.py"
    body = """
        y[:] = x
        for _ in range(T):
            y[1:-1] = 0.5 * (y[:-2] + y[2:])"""
    one = SmallReference({"N": 64, "T": 20}, *VECTOR, body)
    path.write_text(one.text("numpy"))
    work = counted(ReferenceReader(RunReference(path, None, (), None), [one.dims]).read())
    assert work.swept_bytes == 8 * Size.of("N") * Size.of("T")
    assert work.read_bytes + work.written_bytes == 8 * Size.of("N")


def test_a_process_reads(tmp_path: Path) -> None:
    found = _asked(NUMPY["softmax"])
    assert found.is_certain
    assert found.graph is not None
    assert from_document(json.loads(json.dumps(as_document(found.graph)))) == found.graph


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("raise RuntimeError('no')", "RuntimeError: no"),
        ("import os\nos._exit(3)", "exited with 3"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("import nothing_of_this_name", "install it"),
        ("import socket\nsocket.create_connection(('192.0.2.1', 80), 5)", "Error"),
    ],
)
def test_whatever_a_reference_does_becomes_a_refusal(body: str, why: str) -> None:
    found = _asked(SmallReference({"N": 64}, *VECTOR, body))
    assert found.graph is None
    assert why in found.refusal


def test_a_reference_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "DEADLINE_S", 3.0)
    found = _asked(SmallReference({"N": 64}, *VECTOR, "while True:\n    pass"))
    assert "deadline" in found.refusal


@pytest.mark.parametrize(
    "document",
    [
        {}, [], {"nodes": [{"node": "Node"}], "outputs": {}, "notes": []},
        {"nodes": [{"node": "Cast", "shape": [], "dtype": "int8", "arg": 0}], "outputs": {},
         "notes": []},
        {"nodes": [{"node": "Input", "shape": ["x"], "dtype": "int8", "name": "x"}], "outputs": {},
         "notes": []},
        {"nodes": [], "outputs": {"y": 0}, "notes": []},
    ],
)  # fmt: skip
def test_what_is_no_graph_is_none(document: object) -> None:
    with pytest.raises(ValueError, match="no graph"):
        from_document(document)


DIMS = [{"N": n, "h": h, "D": d} for n, h, d in
        ((7, 3, 12), (9, 4, 20), (12, 5, 30), (17, 2, 14), (22, 6, 18), (10, 7, 35))]  # fmt: skip
N, H, D = map(Size.of, ("N", "h", "D"))


@pytest.mark.parametrize(
    "size",
    [N, 2 * N + 3, N * D, N * H * D, (N + 1) // 2, D // H, N * (D // H), 2 * (N // 2), N * N + D,
     (N + D) * 2, (N - 2) * (D + 1), D * ((N + 1) // 2), Size.of(5)],
)  # fmt: skip
def test_sizes_are_found_again(size: Size) -> None:
    found = Fit(DIMS).size([size.at(dims) for dims in DIMS])
    assert found is not None
    other = {"N": 101, "h": 5, "D": 40}
    assert found.at(other) == size.at(other)


def test_a_reference_without_setup_is_read_by_the_kernels_arguments(tmp_path: Path) -> None:
    (tmp_path / "kernel.c").write_text("void solve(const float* x, float* y, int N, int D) {}\n")
    (tmp_path / "reference.py").write_text(
        "def reference(x, y, N, D):\n    y[:N] = x[: N * D].reshape(N, D).sum(axis=1)\n"
    )
    command = ["explain", str(tmp_path / "kernel.c"), "--ref", str(tmp_path / "reference.py")]
    ran = CliRunner().invoke(cli, [*command, "--workload", "N=64,D=32", "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert (found["kind"], found["certain"], found["flops"]) == ("reduction", True, "D*N")
    assert found["workloads"][0]["flops"] == 64 * 32


def layers(count: int, *, odd: int | None = None) -> Graph:
    b = Builder()
    x = b.apply("exp", b.input("x", "float32", "N", "D"))
    for at in range(count):
        h = b.contract("nk,km->nm", x, b.input(f"w{at}", "float32", "D", "D"))
        if at == odd:
            h = b.apply("tanh", h)
        top = b.expand_dims(b.reduce("max", h, 1), 1)
        x = b.apply("add", x, b.apply("mul", b.apply("sub", h, top), b.constant(0.5, "float32")))
    return b.graph(y=x)


def test_layers_that_come_again_are_told_once() -> None:
    short = short_lines(layers(12))
    assert sum("contract" in line for line in short) == 1
    assert any("12 times" in line for line in short)
    assert len(short_lines(layers(40))) == len(short)
    last = layers(12).outputs["y"]
    assert short[-1] == f"y = t{last}"
    assert any(f"up to t{last}" in line for line in short)


def test_a_layer_that_differs_is_told_apart() -> None:
    short = short_lines(layers(12, odd=5))
    assert sum("contract" in line for line in short) == 3
    assert sum("tanh" in line for line in short) == 1


def test_what_only_one_operation_needs_is_part_of_its_formula() -> None:
    b = Builder()
    x, y = b.input("x", "float32", "N"), b.input("y", "float32", "N")
    total = b.apply("add", x, y)
    product = b.apply("mul", total, b.apply("exp", b.apply("neg", total)))
    assert short_lines(b.graph(z=product)) == [
        "x, y: [N] float32",
        "t2[N] float32 = x + y",
        "t5[N] float32 = t2 * exp(neg(t2))",
        "z = t5",
    ]


def test_places_of_windows_are_found_again() -> None:
    seen = [{"H": h, "K": k, "S": s, "P": p} for h, k, s, p in
            ((9, 2, 2, 1), (12, 3, 3, 2), (14, 2, 4, 1), (17, 5, 2, 3), (20, 4, 3, 1),
             (23, 3, 2, 2), (25, 2, 3, 3), (28, 5, 4, 2))]  # fmt: skip
    high, wide, step, around = map(Size.of, "HKSP")
    for size in ((high - wide) // step + 1, (high - wide + around * 2) // step + 1, high // step):
        found = Fit(seen).size([size.at(dims) for dims in seen])
        assert found is not None
        other = {"H": 113, "K": 7, "S": 5, "P": 3}
        assert found.at(other) == size.at(other)


def test_a_number_that_ends_what_was_read_is_said() -> None:
    body = """
        y[:] = x
        for i in range(min(N, 50)):
            y[i] = 2 * x[i] + 90 * x[i]"""
    found = _asked(SmallReference({"N": 24}, *VECTOR, body))
    assert found.is_certain
    assert found.limits == ("N <= 50",)
    assert _asked(SmallReference({"N": 24}, *VECTOR, body.replace("min(N, 50)", "N"))).limits == ()


def test_what_divides_the_sizes_that_were_read_is_said() -> None:
    body = """
        for i in range(N):
            if i % 2 == 0:
                y[i] = x[i] * 2
            else:
                y[i] = x[i - 1]"""
    found = _asked(SmallReference({"N": 24}, *VECTOR, body))
    assert found.is_certain
    assert found.limits == ("N % 2 == 0",)


N, M = Size.of("N"), Size.of("M")


@pytest.mark.parametrize(
    ("numbers", "dims"),
    [
        ({"rows": N, "cells": N * M}, {"N": "rows", "M": "(cells / rows)"}),
        ({"N": M, "M": N}, {"M": "N", "N": "M"}),
        ({"N": M, "k": N + M}, {"M": "N", "N": "-N + k"}),
        ({"N": M, "k": N * M}, {"M": "N", "N": "(k / N)"}),
        ({"N": N - 1}, {"N": "N + 1"}),
        ({"N": M}, None),
    ],
)
def test_numbers_may_have_the_names_of_other_dims(
    numbers: dict[str, Size], dims: dict[str, str] | None
) -> None:
    b = Builder()
    graph = b.graph(y=b.reduce("sum", b.input("x", "float32", N, M), 0))
    found = Computation(graph, sizes=numbers).dims_by(list(numbers))
    assert (found and {dim: str(size) for dim, size in found.items()}) == dims


def test_what_a_mask_by_places_hides_counts_for_half() -> None:
    b = Builder()
    q, k = b.input("q", "float32", "T", "D"), b.input("k", "float32", "T", "D")
    scores = b.contract("td,sd->ts", q, k)
    later = b.apply("lt", b.expand_dims(b.arange("T"), 1), b.arange("T"))
    kept = b.apply("where", later, b.constant(-math.inf, "float32"), scores)
    flops = counted(b.graph(y=b.reduce("sum", kept, 1))).operations
    assert flops["contract"] == Size.of("T") * Size.of("T") * Size.of("D")
    plain = counted(simplified(b.graph(y=b.reduce("sum", scores, 1)))).operations
    assert plain["contract"] == 2 * flops["contract"]


def test_a_choice_between_true_and_false_is_the_test() -> None:
    b = Builder()
    x, y = b.input("x", "float32", "N"), b.input("y", "float32", "N")
    flags = b.constant(True, "bool"), b.constant(False, "bool")
    test = b.apply("lt", x, y)
    chosen, other = b.apply("where", test, *flags), b.apply("where", test, *reversed(flags))
    found = simplified(b.graph(a=b.apply("and", chosen, test), b=other))
    assert [node.op for node in found.nodes if hasattr(node, "op")] == ["lt", "not", "and"]
