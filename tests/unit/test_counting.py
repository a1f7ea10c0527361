"""Operations and bytes of references in PyTorch, against formulas derived by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from operator_table import SCORES, TABLE, Operator  # noqa: E402

from roofsmith.analysis.cost import cost  # noqa: E402
from roofsmith.domain.arrays import ArraySpec  # noqa: E402
from roofsmith.domain.bound import Cost, OperationCount  # noqa: E402
from roofsmith.domain.description import WorkloadDescription  # noqa: E402
from roofsmith.domain.kernel import Signature  # noqa: E402
from roofsmith.domain.workload import Workload  # noqa: E402
from roofsmith.judge.gpu.counting import _attention_formulas, counted  # noqa: E402
from roofsmith.judge.gpu.reference import NAMES, GpuReference  # noqa: E402


def described(operator: Operator) -> WorkloadDescription:
    tensors = operator.tensors()
    in_place = set(tensors) == {"y"}
    roles = dict.fromkeys(tensors, "input") | {"y": "inout" if in_place else "output"}
    inputs = {name: t for name, t in tensors.items() if name != "y" or in_place}
    arrays = tuple(
        ArraySpec(name, roles[name], NAMES[tensor.dtype], tuple(tensor.shape))
        for name, tensor in tensors.items()
    )
    seen = counted(lambda: operator.reference(**tensors), inputs)
    return WorkloadDescription(
        arrays, {}, operator.declared, None, None, None, counted=seen
    )  # fmt: skip


def cost_of(operator: Operator) -> Cost:
    return cost(Workload(dims=operator.dims or {"n": 1}), described(operator), operator.family)


@pytest.mark.parametrize("operator", TABLE, ids=lambda operator: operator.name)
def test_an_operator_costs_what_its_formula_says(operator: Operator) -> None:
    found = cost_of(operator)
    assert found.flops == operator.flops
    assert found.total_bytes == operator.moved
    assert found.dtype == operator.dtype
    assert found.matrix_product == operator.counted


@pytest.mark.parametrize("operator", TABLE, ids=lambda operator: operator.name)
def test_what_nobody_counts_is_unknown_and_not_zero(operator: Operator) -> None:
    seen = described(operator).counted
    assert (seen.flops is not None) == operator.counted
    assert (seen.reason is None) == operator.counted
    assert seen.flops != 0


@pytest.mark.parametrize("operator", TABLE, ids=lambda operator: operator.name)
def test_nothing_is_vouched_for_beyond_what_is_used(operator: Operator) -> None:
    found = cost_of(operator)
    assert found.flops is not None
    assert found.least_flops is not None
    assert 0 <= found.least_flops <= found.flops


def named(name: str) -> Operator:
    return next(operator for operator in TABLE if operator.name == name)


def test_a_mask_that_only_the_declaration_knows_wins_and_says_why() -> None:
    found = cost_of(named("causal attention, declared"))
    figures = {c.origin: c.value for c in found.counts if c.quantity == "flops"}
    assert figures["counted"] is not None
    assert found.flops is not None
    assert figures["counted"] > 1.9 * found.flops
    assert [c.origin for c in found.counts if c.quantity == "flops" and c.used] == ["declared"]
    assert found.reason is not None
    assert "the lower one, since a floor must not lie above what is possible" in found.reason


def test_operations_of_one_algorithm_are_no_proof_that_no_other_does_with_less() -> None:
    assert cost_of(named("two products")).least_flops == 0
    assert cost_of(named("conv2d")).least_flops == 0
    gemm = cost_of(named("gemm"))
    assert gemm.least_flops == gemm.flops
    attention = cost_of(named("attention"))
    assert attention.flops is not None
    assert attention.least_flops == (attention.flops + 5 * SCORES) / 2


def test_an_operator_that_raises_is_unknown_with_the_reason() -> None:
    def broken() -> None:
        raise ValueError("no such\nthing")

    assert counted(broken, {}) == OperationCount(
        reason="its run wasn't counted: ValueError: no such"
    )


def test_products_in_several_types_are_taken_as_the_fastest() -> None:
    half, full = torch.ones(4, 4, dtype=torch.float16), torch.ones(4, 4)
    seen = counted(lambda: (half @ half, full @ full), {})
    assert seen.by_dtype == {"float16": 128.0, "float32": 128.0}
    arrays = (ArraySpec("x", "input", "float32", (4, 4)),)
    found = cost(
        Workload(dims={"n": 4}),
        WorkloadDescription(arrays, {}, None, None, None, None, counted=seen),
        None,
    )
    assert found.dtype == "float16"
    assert found.reason is not None
    assert "products in float16 and float32 are all taken as float16" in found.reason


def test_a_reference_without_values_is_counted_by_its_shapes() -> None:
    a, b = (torch.empty(64, 64, device="meta") for _ in "ab")
    seen = counted(lambda: a @ b, {"a": a, "b": b})
    assert (seen.flops, seen.read_bytes) == (2 * 64**3, 2 * 4 * 64**2)


def test_a_masks_pairs_are_counted_one_by_one() -> None:
    q = torch.randn(2, 3, 8, 4)
    full = 2 * 3 * 8 * 8

    def pairs(mask: Any, key: Any = q) -> float:
        attend = torch.nn.functional.scaled_dot_product_attention
        return (counted(lambda: attend(q, key, key, attn_mask=mask), {}).flops or 0) / (4 * 4)

    lower = torch.ones(8, 8, dtype=torch.bool).tril()
    assert pairs(lower) == 2 * 3 * 36
    assert pairs(torch.zeros(8, 8).masked_fill(~lower, float("-inf"))) == 2 * 3 * 36
    assert pairs(torch.randn(8, 8)) == full, "a bias hides nothing"
    assert pairs(torch.zeros(8, 8).masked_fill(~lower, -1e9)) == full, "small, but not nothing"
    lengths = torch.tensor([2, 5])[:, None, None, None]
    padded = torch.arange(8) < lengths
    assert pairs(padded) == 3 * 8 * (2 + 5)
    assert pairs(padded.expand(2, 3, 8, 8)) == 3 * 8 * (2 + 5)
    assert pairs(torch.ones(1, 3, 1, 5, dtype=torch.bool), q[:, :, :5]) == 2 * 3 * 8 * 5


@pytest.mark.parametrize(
    "kernel", ["_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"]
)
def test_masks_of_a_gpus_fused_kernels_are_counted_as_well(kernel: str) -> None:
    formula = _attention_formulas()[getattr(torch.ops.aten, kernel)]
    q = torch.randn(2, 3, 8, 4)
    hidden = torch.ones(8, 8, dtype=torch.bool).triu(1)
    bias = torch.zeros(8, 8).masked_fill(hidden, float("-inf")).expand(2, 3, 8, 8)
    lower, full = 2 * 3 * 36 * 4 * 4, 2 * 3 * 64 * 4 * 4
    assert formula(q, q, q, bias, False) == lower
    assert formula(q, q, q, None, False, 0.0, True) == lower
    assert formula(q, q, q, None, False) == full
    assert formula(q, q, q, bias.to("meta"), False) == full, "nobody sees what it hides"


def test_what_is_overwritten_before_it_is_read_is_not_read() -> None:
    x = torch.ones(8, 8)
    assert counted(lambda: x.fill_(2).add_(1), {"x": x}).read_bytes is None
    assert counted(lambda: x.add_(1).fill_(2), {"x": x}).read_bytes == 256


def test_pieces_are_counted_once_and_never_beyond_the_whole() -> None:
    x = torch.ones(8, 8)

    def read(*pieces: Any) -> float | None:
        return counted(lambda: [piece(x) + 1 for piece in pieces], {"x": x}).read_bytes

    assert read(lambda x: x[:2], lambda x: x[1:3]) == 3 * 32
    assert read(lambda x: x[:, :2]) == 8 * 2 * 4
    assert read(lambda x: x[:, :2], lambda x: x[:, :2]) == 8 * 2 * 4
    assert read(lambda x: x[:, :6], lambda x: x[:, 2:]) == 256
    assert read(lambda x: x[:1].expand(5, 8)) == 32
    assert read(lambda x: x.t(), lambda x: x[0]) == 256
    assert read(lambda x: x[torch.tensor([1, 1, 4])]) == 2 * 32


def test_the_reference_process_tells_what_it_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnHost(GpuReference):
        def inputs(self, dims: dict[str, int], seed: int) -> tuple[dict[str, Any], set[str]]:
            n = dims["N"]
            return {"a": torch.ones(n, n), "y": torch.ones(n, n), "N": n}, {"y"}

    module = ModuleType("reference")
    module.reference = lambda a, y, N: torch.matmul(a, a, out=y)  # type: ignore[attr-defined]
    module.setup = lambda **_: {}  # type: ignore[attr-defined]
    told = OnHost(module, None, Signature(parameters=()), None, tf32=False).describe({"N": 16})
    seen = OperationCount.model_validate(told["counted"])
    assert (seen.flops, seen.read_bytes) == (2 * 16**3, 4 * 16**2)
