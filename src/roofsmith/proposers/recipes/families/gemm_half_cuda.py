"""Replace a matrix product of 16-bit floats by one on tensor cores."""

from __future__ import annotations

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.reach import reaching
from roofsmith.proposers.recipes.families._gemm_cuda import half_product, with_half


def apply(context: CardContext) -> CardChange | None:
    """One product of float16 or bfloat16 matrices, B transposed or not."""
    fit = half_product(context)
    how = "on tensor cores, with tiles on their way to shared memory meanwhile"
    return None if fit is None else with_half(context, fit, "gemm_half", how)


CARD = Card(
    id="gemm-half",
    title="16-bit matrix product on tensor cores",
    category="tiling",
    answers=frozenset(("compute", "memory", "latency", "unknown")),
    rationale=(
        "Tensor cores do 16-bit products at more than ten times the rate of other units, if tiles "
        "wait for them in shared memory: several are on their way while one is computed"
    ),
    expected_counter="tensor_pipe",
    expected_change="up, to a third of what the pipe can do and more",
    instruction="HMMA",
    source="CUTLASS, Efficient GEMM in CUDA; NVIDIA, PTX ISA, mma.m16n8k16 and ldmatrix",
    apply=apply,
    predict=reaching("gemm-half"),
    families=frozenset(("gemm",)),
    languages=frozenset(("cuda",)),
)
