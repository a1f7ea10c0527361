from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.cost import cost
from roofsmith.analysis.roofline import below_floor, bound
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.bound import Bound, CeilingKind, Cost
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.device import Cache, Device
from roofsmith.domain.facts import (
    ArithmeticType,
    BandwidthCeiling,
    Citation,
    ComputeCeiling,
    Datasheet,
    DType,
    Fact,
    FactSheet,
)
from roofsmith.domain.workload import Workload
from roofsmith.engine.survey import bound_of
from roofsmith.testing.engine import fake_target

L2 = 50 << 20
GPU = Device(
    kind="nvidia",
    name="GPU",
    cores=132,
    caches=(Cache(level=2, kind="unified", size_bytes=L2, shared_by=132),),
    memory_bytes=80 << 30,
    arch="sm_90",
)
WORKLOAD = Workload(dims={"N": 4096})
FMA: dict[ArithmeticType, float] = {"float32": 6e13, "float64": 3e13, "float16": 1.2e14}
MMA: dict[ArithmeticType, float] = {
    "float16": 8e14, "bfloat16": 8e14, "tfloat32": 4e14, "int8": 1.6e15, "float64": 6e13,
}  # fmt: skip


def fact(metric: str, value: float | None, unit: str) -> Fact:
    if value is None:
        return Fact(metric=metric, value=None, unit=unit, reason="not measured here")
    return Fact(metric=metric, value=value, unit=unit, citation=Citation(path="ceilings.json"))


def sheet(mma: dict[ArithmeticType, float] | None = None) -> FactSheet:
    products = MMA if mma is None else mma
    return FactSheet(
        device_id=GPU.id,
        bandwidth=tuple(
            BandwidthCeiling(
                pattern="copy",
                threads=1,
                working_set_bytes=size,
                fact=fact(f"copy bandwidth at {size} byte", rate, "byte/s"),
            )
            for size, rate in ((L2 // 2, 6e12), (32 * L2, 3e12))
        ),
        compute=(
            *(
                ComputeCeiling(dtype=t, threads=1, fact=fact(f"{t} FMA peak", rate, "FLOP/s"))
                for t, rate in FMA.items()
            ),
            *(
                ComputeCeiling(
                    operation="mma",
                    dtype=t,
                    threads=1,
                    fact=fact(f"{t} matrix peak", products.get(t), "FLOP/s"),
                )
                for t in MMA
            ),
        ),
    )


def bounded(
    dtype: DType = "float32",
    *,
    flops: float = 1e12,
    moved: float = 1e8,
    matrix: bool = True,
    tf32: bool = False,
    facts: FactSheet | None = None,
) -> Bound:
    needed = Cost(
        flops=flops, read_bytes=moved / 2, written_bytes=moved / 2, dtype=dtype, source="test",
        matrix_product=matrix,
    )  # fmt: skip
    return bound(WORKLOAD, needed, facts or sheet(), GPU, 1, tf32=tf32)


@pytest.mark.parametrize(
    ("dtype", "peak"),
    [("float16", 8e14), ("bfloat16", 8e14), ("int8", 1.6e15), ("float64", 6e13), ("float32", 6e13)],
)
def test_matrix_products_are_bounded_by_matrix_units_that_know_the_type(
    dtype: DType, peak: float
) -> None:
    assert bounded(dtype).peak.value == peak


def test_tf32_counts_only_where_the_target_allows_it() -> None:
    assert bounded("float32").peak.metric == "float32 FMA peak"
    assert bounded("float32", tf32=True).peak.metric == "tfloat32 matrix peak"
    assert bounded("float16", tf32=True).peak.metric == "float16 matrix peak"


def test_a_target_that_allows_tf32_is_surveyed_with_its_ceiling() -> None:
    n = 4096
    arrays = tuple(
        ArraySpec(name, role, "float32", (n, n))
        for name, role in (("A", "input"), ("B", "input"), ("C", "output"))
    )
    said = WorkloadDescription(
        arrays=arrays, scalars={"M": n, "N": n, "K": n}, flops=None, bytes=None, atol=None,
        rtol=None,
    )  # fmt: skip
    workload = Workload(dims={"M": n, "N": n, "K": n})
    target = fake_target(language="cuda", family="gemm", workloads=(workload,))
    allowed = target.model_copy(update={"tf32": True})
    full, fast = (bound_of(workload, said, t, sheet(), GPU, 1) for t in (target, allowed))
    assert full.peak.metric == "float32 FMA peak"
    assert fast.peak.metric == "tfloat32 matrix peak"
    assert fast.floor_time_s is not None
    assert full.floor_time_s is not None
    assert fast.floor_time_s < full.floor_time_s


def test_other_operators_are_bounded_by_multiply_adds() -> None:
    assert bounded("float16", matrix=False).peak.value == 1.2e14
    assert bounded("float32", matrix=False, tf32=True).peak.value == 6e13


def test_without_a_matrix_ceiling_half_products_are_unknown_not_slow() -> None:
    found = bounded("float16", facts=sheet(mma={}))
    assert found.peak.value is None
    assert "not measured here" in str(found.peak)
    assert found.limiter == "memory"
    assert bounded("float32", facts=sheet(mma={})).peak.value == 6e13


def test_small_data_comes_from_memory_because_buffers_rotate() -> None:
    found = bounded(flops=1.0, moved=L2 / 4)
    assert found.working_set == "memory"
    assert found.bandwidth.value == 3e12
    # A third of three caches' worth can still be there.
    assert found.slack == pytest.approx(0.1 + 0.9 / 3)


def test_float32_products_from_faster_ones_are_not_impossible() -> None:
    found = bounded("float32", flops=1e13)
    assert found.floor_time_s == pytest.approx(1e13 / 6e13)
    three_tf32_products = 3 * 1e13 / 4e14
    assert below_floor(found, three_tf32_products) is None
    assert below_floor(found, 0.7 * 1e13 / 8e14) is not None
    plain = bounded("float32", flops=1e13, matrix=False)
    assert below_floor(plain, three_tf32_products) is not None


@given(st.floats(1e6, 1e15), st.floats(1e3, 1e11))
def test_slack_is_a_share_and_memory_still_bounds(flops: float, moved: float) -> None:
    found = bounded("float32", flops=flops, moved=moved)
    assert 0 <= found.slack < 1
    assert found.floor_time_s is not None
    # No composition moves bytes faster: half of what memory alone takes is impossible.
    assert below_floor(found, 0.4 * moved / 3e12) is not None


def description(inputs: DType, output: DType) -> WorkloadDescription:
    shape = (64, 64)
    arrays = (
        ArraySpec(name="A", role="input", dtype=inputs, shape=shape),
        ArraySpec(name="B", role="input", dtype=inputs, shape=shape),
        ArraySpec(name="C", role="output", dtype=output, shape=shape),
    )
    return WorkloadDescription(
        arrays=arrays, scalars={}, flops=None, bytes=None, atol=None, rtol=None
    )


def test_products_have_the_type_of_their_operands() -> None:
    dims = Workload(dims={"M": 64, "N": 64, "K": 64})
    product = cost(dims, description("float16", "float32"), "gemm")
    assert (product.dtype, product.matrix_product) == ("float16", True)
    other = cost(dims, description("float16", "float32"), "elementwise")
    assert (other.dtype, other.matrix_product) == ("float32", False)


def datasheet(bandwidth: float | None, peak: float | None) -> Datasheet:
    return Datasheet(
        page="gpu",
        product="GPU",
        bandwidth=fact("memory bandwidth", bandwidth, "byte/s"),
        compute=(
            ComputeCeiling(
                operation="mma", dtype="float16", threads=1,
                fact=fact("float16 dense matrix rate", peak, "FLOP/s"),
            ),
        ),
    )  # fmt: skip


def bounded_by(
    kind: CeilingKind, printed: Datasheet | None, seen: FactSheet | None = None
) -> Bound:
    needed = Cost(flops=1e12, read_bytes=5e7, written_bytes=5e7, dtype="float16", source="test",
                  matrix_product=True)  # fmt: skip
    facts = (seen or sheet()).model_copy(update={"datasheet": printed})
    return bound(WORKLOAD, needed, facts, GPU, 1, ceilings=kind)


def test_both_ceilings_are_kept_and_the_target_chooses() -> None:
    printed = datasheet(3.35e12, 1e15)
    measured = bounded_by("measured", printed)
    by_paper = bounded_by("datasheet", printed)
    assert (measured.peak.value, by_paper.peak.value) == (8e14, 1e15)
    assert (measured.bandwidth.value, by_paper.bandwidth.value) == (3e12, 3.35e12)
    for found in (measured, by_paper):
        assert (found.measured.peak.value, found.datasheet.peak.value) == (8e14, 1e15)
    assert measured.reason is None


def test_a_ceiling_that_one_kind_lacks_is_the_others_and_says_so() -> None:
    half = bounded_by("datasheet", datasheet(None, 1e15))
    assert (half.bandwidth.value, half.peak.value) == (3e12, 1e15)
    assert "not measured here" in (half.reason or "")
    nothing = FactSheet(device_id=GPU.id)
    paper = bounded_by("measured", datasheet(3.35e12, 1e15), nothing)
    assert (paper.bandwidth.value, paper.peak.value) == (3.35e12, 1e15)
    assert "datasheet's peak" in (paper.reason or "")
    unlisted = bounded_by("datasheet", None)
    assert unlisted.peak.value == 8e14
    assert "no datasheet" in (unlisted.reason or "")


@given(st.floats(1e14, 1e16), st.floats(1e14, 1e16), st.sampled_from(["measured", "datasheet"]))
def test_a_time_is_impossible_only_by_the_higher_ceiling(
    measured: float, printed: float, kind: CeilingKind
) -> None:
    found = bounded_by(kind, datasheet(3e12, printed), sheet({"float16": measured}))
    fastest_s = max(1e12 / max(measured, printed), 1e8 / 3e12)
    assert below_floor(found, fastest_s) is None
    assert below_floor(found, 0.1 * fastest_s) is not None
    assert found.proof is not None


def test_operations_that_nobody_vouches_for_make_no_time_impossible() -> None:
    needed = Cost(flops=1e15, read_bytes=5e7, written_bytes=5e7, dtype="float16", source="test",
                  matrix_product=True, least_flops=0.0)  # fmt: skip
    found = bound(WORKLOAD, needed, sheet(), GPU, 1)
    assert found.limiter == "compute"
    memory_s = 1e8 / 3e12
    assert below_floor(found, memory_s) is None
    message = below_floor(found, 0.3 * memory_s)
    assert message is not None
    assert "1e+08 byte in that time" in message
    assert "copy bandwidth" in message


def test_a_peak_that_nobody_knows_makes_no_time_impossible() -> None:
    needed = Cost(flops=1e15, read_bytes=5e7, written_bytes=5e7, dtype="float64", source="test",
                  matrix_product=True)  # fmt: skip
    facts = sheet()
    others = tuple(c for c in facts.compute if c.dtype != "float64")
    found = bound(WORKLOAD, needed, facts.model_copy(update={"compute": others}), GPU, 1)
    assert found.peak.value is None
    assert found.limiter == "memory"
    assert found.slack == pytest.approx(0.1 + 0.9 / 3)
    assert below_floor(found, 0.7 * 1e8 / 3e12) is None


def test_operations_that_nobody_saw_as_products_may_be_some() -> None:
    declared = bounded("float16", flops=1e13, matrix=False)
    assert declared.peak.value == 1.2e14
    assert below_floor(declared, 1e13 / 8e14) is None
    assert below_floor(declared, 0.7 * 1e13 / 8e14) is not None


@given(
    flops=st.floats(0, 1e16), moved=st.floats(1, 1e12), least=st.none() | st.floats(0, 1),
    dtype=st.sampled_from(["float16", "float32", "float64", "int8", "float8"]),
    matrix=st.booleans(), tf32=st.booleans(), kind=st.sampled_from(["measured", "datasheet"]),
)  # fmt: skip
def test_impossible_is_never_above_the_floor(
    flops: float, moved: float, least: float | None, dtype: ArithmeticType, matrix: bool,
    tf32: bool, kind: CeilingKind,
) -> None:  # fmt: skip
    needed = Cost(
        flops=flops, read_bytes=moved / 2, written_bytes=moved / 2, dtype=dtype, source="test",
        matrix_product=matrix, least_flops=None if least is None else least * flops,
    )  # fmt: skip
    facts = sheet().model_copy(update={"datasheet": datasheet(3.35e12, 1e15)})
    found = bound(WORKLOAD, needed, facts, GPU, 1, tf32=tf32, ceilings=kind)
    assert found.floor_time_s is not None
    assert 0 <= found.slack < 1
    assert below_floor(found, found.floor_time_s) is None
    assert (found.proof is not None) == (below_floor(found, 1e-30) is not None)
