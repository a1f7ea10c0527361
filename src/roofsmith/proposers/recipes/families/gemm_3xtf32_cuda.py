"""Replace a float32 matrix product by one on tensor cores that keeps float32's accuracy."""

from __future__ import annotations

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.reach import reaching
from roofsmith.proposers.recipes.families._gemm_cuda import with_float32


def apply(context: CardContext) -> CardChange | None:
    """One product of float32 matrices."""
    return with_float32(context, "gemm_3xtf32", "on tensor cores, as three TF32 products")


CARD = Card(
    id="gemm-3xtf32",
    title="Matrix product as three TF32 products",
    category="precision",
    answers=frozenset(("compute", "memory", "latency", "unknown")),
    rationale=(
        "Tensor cores do TF32 products at a multiple of the float32 units' rate; operands split "
        "into a TF32 number and its rest lose no more than float32 does"
    ),
    expected_counter="tensor_pipe",
    expected_change="up from none",
    instruction="HMMA.TF32",
    source=(
        "Ootomo & Yokota, Recovering single precision accuracy from Tensor Cores while surpassing "
        "the FP32 theoretical peak performance, IJHPCA 36(4), 2022, arXiv:2203.03341"
    ),
    apply=apply,
    predict=reaching("gemm-3xtf32"),
    families=frozenset(("gemm",)),
    languages=frozenset(("cuda",)),
)
