"""Replace a matrix product of 16-bit floats by one on tensor cores."""

from __future__ import annotations

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.reach import reaching
from roofsmith.proposers.recipes.families._fit_cuda import TYPES
from roofsmith.proposers.recipes.families._gemm_cuda import plain_product, with_product


def apply(context: CardContext) -> CardChange | None:
    """One product of float16 or bfloat16 matrices, B transposed or not."""
    fit = plain_product(context)
    if fit is None or fit.a.dtype != fit.b.dtype or fit.a.dtype not in ("float16", "bfloat16"):
        return None
    return with_product(
        context,
        fit,
        "gemm_half",
        "on tensor cores, with tiles on their way to shared memory meanwhile",
        input_type=TYPES[fit.a.dtype],
        output_type=TYPES[fit.c.dtype],
        mma_type="f16" if fit.a.dtype == "float16" else "bf16",
        turned=str(fit.transposed_b).lower(),
    )


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
