"""Replace a float32 matrix product by one of tiles in shared memory and registers."""

from __future__ import annotations

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.reach import reaching
from roofsmith.proposers.recipes.families._gemm_cuda import with_float32


def apply(context: CardContext) -> CardChange | None:
    """One product of float32 matrices."""
    return with_float32(context, "gemm_ffma", "in tiles of 8 x 8 a thread, on the float32 units")


CARD = Card(
    id="gemm-ffma",
    title="Matrix product in register tiles",
    category="tiling",
    answers=frozenset(("compute", "memory", "latency", "unknown")),
    rationale=(
        "A multiply-add whose operands come from memory waits for them; with 8 x 8 elements of C "
        "to a thread, 16 loads from shared memory serve 64 multiply-adds, and the next tiles "
        "arrive meanwhile"
    ),
    expected_counter="fma_pipe",
    expected_change="up to three quarters and more",
    instruction="FFMA",
    source=(
        "Volkov & Demmel, Benchmarking GPUs to tune dense linear algebra, SC 2008, "
        "doi:10.1109/SC.2008.5214359; CUTLASS, Efficient GEMM in CUDA"
    ),
    apply=apply,
    predict=reaching("gemm-ffma"),
    families=frozenset(("gemm",)),
    languages=frozenset(("cuda",)),
)
