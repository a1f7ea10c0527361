"""Matrix products of groups of rows, each with its own matrix, in Triton."""

from __future__ import annotations

import re

from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.recipes.families._fit import GroupedProduct, grouped_product, says
from roofsmith.proposers.recipes.families._modules import (
    Replacement,
    has_descriptors,
    precision,
    stages,
    triton_card,
)

_NAMED = re.compile(r"group|expert|moe|matmul|gemm|\bmm\b|tl\.dot|[\w)] @ [\w(]", re.IGNORECASE)


def launch(context: CardContext) -> Replacement | None:
    """Rows, matrices and what deals the rows in, one output."""
    fit = grouped_product(context)
    if fit is None or (context.family is None and not says(context, _NAMED)):
        return None
    names = f"{fit.a.name}, {fit.b.name}, {fit.c.name}, {fit.groups.name}"
    dot = precision(context) if fit.a.dtype == "float32" else "ieee"
    return Replacement(
        "grouped_matmul",
        f"grouped_matmul({names}, {fit.kind!r}, {fit.transposed_b}, {dot!r})",
        "Compute the products of all groups in one launch of tiles that find their group",
        _settings(context, fit),
    )


def _settings(context: CardContext, fit: GroupedProduct) -> dict[str, int]:
    """Tiles as the plain product's; of fewer rows where a group of mean size has few.

    Measured on an H100 with 256 to 512 rows a group: programs that stay are best with every tile.
    """
    sizes = zip(fit.a.rows, fit.b.axis(0), strict=True)
    mean = max(rows // max(1, groups) for rows, groups in sizes)
    m = next((rows for rows in (128, 64, 32) if mean >= rows), 16)
    if fit.a.dtype == "float32":
        return {"BLOCK_M": m, "BLOCK_N": 64, "BLOCK_K": 32, "WARPS": 4, "STAGES": 3}
    large = m == 128
    n = 256 if large else 128
    fitting = stages(context.device, (m + n) * 64 * 2, 3)
    tile = {"BLOCK_M": m, "BLOCK_N": n, "WARPS": 8 if large else 4, "STAGES": fitting}
    staying = {"ADDRESSING": 2, "PROGRAMS_PER_SM": 1 if large else 2}
    return {**tile, **staying} if has_descriptors(context.device) else tile


CARD = triton_card(
    launch,
    id="triton-grouped-gemm",
    title="Matrix products of groups in Triton, all in one launch",
    category="scheduling",
    answers=frozenset(("compute", "memory", "latency", "launch", "unknown")),
    rationale=(
        "A launch for each group, or as many tiles as the largest could need, leaves most of the "
        "device idle; tiles of all groups side by side fill it however rows are dealt"
    ),
    expected_counter="tensor_pipe",
    expected_change="up to two thirds of the matrix units' rate",
    instruction="HGMMA or HMMA or v_mfma",
    source="CUTLASS, example 24_gemm_grouped; Triton tutorials, Group GEMM",
    families=frozenset(("grouped_gemm", "moe")),
)
