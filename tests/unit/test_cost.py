from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.cost import cost, working_set_bytes
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.facts import DType
from roofsmith.domain.workload import Workload


def array(name: str, role: str, *shape: int, dtype: DType = "float32") -> ArraySpec:
    return ArraySpec(name, role, dtype, shape)


def describe(
    *arrays: ArraySpec, flops: float | None = None, bytes: float | None = None
) -> WorkloadDescription:
    return WorkloadDescription(arrays, {}, flops, bytes, None, None)


def flops_of(family: str | None, dims: dict[str, int], *arrays: ArraySpec) -> float | None:
    return cost(Workload(dims=dims), describe(*arrays), family).flops


def softmax(rows: int, columns: int) -> WorkloadDescription:
    return describe(array("x", "input", rows, columns), array("y", "output", rows, columns))


def test_the_references_flops_win_over_the_family() -> None:
    declared = replace(softmax(4, 8), flops=123.0)
    found = cost(Workload(dims={"N": 4}), declared, "softmax")
    assert found.flops == 123.0
    assert "reference's flops()" in found.source


def test_softmax_counts_five_operations_per_element() -> None:
    found = cost(Workload(dims={"N": 4, "D": 8}), softmax(4, 8), "softmax")
    assert found.flops == 5 * 32
    assert (found.read_bytes, found.written_bytes) == (128, 128)
    assert found.total_bytes == 256


@given(m=st.integers(1, 64), n=st.integers(1, 64), k=st.integers(1, 64), ta=st.booleans())
def test_gemm_flops_are_the_same_from_names_and_from_shapes(
    m: int, n: int, k: int, ta: bool
) -> None:
    a = array("A", "input", *((k, m) if ta else (m, k)))
    b, c = array("B", "input", k, n), array("C", "output", m, n)
    assert flops_of("gemm", {"M": m, "N": n, "K": k}, a, b, c) == 2 * m * n * k
    if len({m, n, k}) == 3:  # else another reading of the shapes may be possible
        assert flops_of("gemm", {"rows": m, "cols": n, "inner": k}, a, b, c) == 2 * m * n * k


def test_gemm_with_shapes_that_are_no_product_is_unknown() -> None:
    arrays = (array("A", "input", 3, 5), array("B", "input", 7, 4), array("C", "output", 3, 4))
    found = cost(Workload(dims={"x": 3}), describe(*arrays), "gemm")
    assert found.flops is None
    assert found.reason is not None
    assert "no single matrix product" in found.reason
    assert "flops(**dims)" in found.reason


def test_batched_gemm_multiplies_by_the_batch() -> None:
    dims = {"B": 3, "M": 4, "N": 5, "K": 6}
    a, b, c = array("A", "input", 72), array("b", "input", 90), array("C", "output", 60)
    assert flops_of("gemm", dims, a, b, c) == 2 * 3 * 4 * 5 * 6


def qkv(*shape: int) -> tuple[ArraySpec, ...]:
    inputs = (array(name, "input", *shape) for name in "QKV")
    return (*inputs, array("O", "output", *shape))


def test_attention_counts_two_products_and_a_softmax_per_head() -> None:
    assert flops_of("attention", {"N": 16, "d": 8}, *qkv(16, 8)) == 4 * 16 * 16 * 8 + 5 * 256
    split = flops_of("attention", {"N": 16, "d_model": 8, "h": 2}, *qkv(16, 8))
    assert split == 4 * 16 * 16 * 8 + 2 * 5 * 256
    batched = flops_of("attention", {"B": 3, "H": 2, "S": 16, "D": 8}, *qkv(3, 2, 16, 8))
    assert batched == 6 * (4 * 16 * 16 * 8 + 5 * 256)


@pytest.mark.parametrize(
    ("dims", "arrays"),
    [
        ({"N": 16, "causal": 1}, qkv(16, 8)),
        ({"a": 3, "b": 2, "c": 16}, qkv(3, 2, 16, 8)),
        ({"N": 16}, qkv(16, 8)[:2]),
    ],
)
def test_attention_that_shapes_dont_settle_is_unknown(
    dims: dict[str, int], arrays: tuple[ArraySpec, ...]
) -> None:
    assert flops_of("attention", dims, *arrays) is None


@pytest.mark.parametrize("family", [None, "fft"])
def test_an_unknown_family_is_unknown_not_zero(family: str | None) -> None:
    found = cost(Workload(dims={"N": 4}), softmax(4, 8), family)
    assert found.flops is None
    assert found.reason is not None
    assert "UNKNOWN" in found.reason


def test_reduction_and_elementwise_and_norm_count_least_work() -> None:
    x, y, w = array("x", "input", 4, 8), array("y", "output", 4, 8), array("w", "input", 8)
    assert flops_of("reduction", {"N": 4}, x, array("s", "output", 4)) == 28
    assert flops_of("elementwise", {"N": 4}, x, y) == 32
    assert flops_of("norm", {"N": 4}, x, w, y) == 128


@pytest.mark.parametrize(("said", "used"), [(512.0, 256.0), (128.0, 128.0)])
def test_of_declared_bytes_and_the_arrays_the_lower_count(said: float, used: float) -> None:
    found = cost(Workload(dims={"N": 4}), replace(softmax(4, 8), bytes=said), "softmax")
    assert found.total_bytes == used
    assert found.read_bytes == found.written_bytes
    assert found.reason is not None
    assert "above what is possible" in found.reason
    figures = {count.origin: count.value for count in found.counts if count.quantity == "bytes"}
    assert figures == {"declared": said, "arrays": 256.0}


def test_declared_bytes_that_agree_are_not_remarked_on() -> None:
    found = cost(Workload(dims={"N": 4}), replace(softmax(4, 8), bytes=256.0), "softmax")
    assert found.reason is None


@pytest.mark.parametrize("figure", [math.nan, math.inf, -1.0])
def test_impossible_declarations_are_named_and_not_used(figure: float) -> None:
    found = cost(
        Workload(dims={"N": 4}), replace(softmax(4, 8), flops=figure, bytes=figure), "softmax"
    )
    assert found.flops == 160
    assert found.total_bytes == 256
    assert found.reason is not None
    assert str(figure) in found.reason


def test_without_arrays_and_bytes_nothing_is_known() -> None:
    found = cost(Workload(dims={"N": 4}), describe(), None)
    assert (found.flops, found.read_bytes, found.total_bytes) == (None, None, None)


def test_the_widest_floating_type_does_the_arithmetic() -> None:
    arrays = (
        array("i", "input", 4, dtype="int64"),
        array("a", "input", 4),
        array("b", "output", 4, dtype="float64"),
    )
    assert cost(Workload(dims={"N": 4}), describe(*arrays), None).dtype == "float64"
    assert cost(Workload(dims={"N": 4}), describe(arrays[0]), None).dtype == "int64"


def test_working_set_is_every_array_once() -> None:
    assert working_set_bytes(softmax(4, 8)) == 256
