"""Matrix products in tiles, in Triton: plain, transposed, batched, with a bias."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.recipes.families._fit import MatrixProduct, matrix_product, says
from roofsmith.proposers.recipes.families._modules import (
    Replacement,
    has_descriptors,
    precision,
    stages,
    triton_card,
)

_NAMED = re.compile(r"matmul|gemm|linear|\bmm\b|bmm|tl\.dot|[\w)] @ [\w(]", re.IGNORECASE)


def launch(context: CardContext) -> Replacement | None:
    """Two matrices in, one out."""
    fit = matrix_product(context)
    if fit is None or (context.family is None and not says(context, _NAMED)):
        return None
    a, b, c = fit.a.name, fit.b.name, fit.c.name
    k = f"{a}.shape[{-2 if fit.transposed_a else -1}]"
    n = f"{c}.shape[-1]"
    m = f"{c}.shape[-2]" if fit.batched else f"{c}.numel() // {n}"
    bias = fit.bias.name if fit.bias else None
    dot = precision(context) if fit.a.dtype == "float32" else "ieee"
    sides = f"{fit.transposed_a}, {fit.transposed_b}"
    large, small = (_tile(context, fit, choose) for choose in (max, min))
    sizes = "" if small == large else f", few={_enough(context)}, small={tuple(small.values())}"
    return Replacement(
        "matmul",
        f"matmul({a}, {b}, {c}, {bias}, {m}, {n}, {k}, {sides}, {dot!r}{sizes})",
        "Compute the matrix product in tiles that meet in the L2 cache",
        {**large, "ADDRESSING": 2, "GROUP_M": 16} if _by_boxes(context, fit) else large,
    )


def _tile(
    context: CardContext, fit: MatrixProduct, choose: Callable[[Iterable[int]], int]
) -> dict[str, int]:
    """Of the largest workload or the least: tiles as large as the matrix units like.

    Smaller ones where these leave SMs idle.

    Measured on an H100: 128 x 256 is best for 16 bits from 1024 x 1024 on, 128 x 128 by boxes for
    TF32 (64 x 64 where these are few), and 128 x 64 for float32 as three TF32 products, which need
    registers for the parts.
    """
    is_single = fit.a.dtype == "float32"
    by_boxes = _by_boxes(context, fit)
    sizes = _TILES[2:] if is_single else _TILES
    if is_single and by_boxes:
        sizes = (_TILES[1], *_TILES[3:])
    m, n, warps = next(
        (size for size in sizes if _fills(context, fit, choose, *size[:2])), sizes[-1]
    )
    k = 32 if is_single and (m > 64 or not by_boxes) else 64 if m > 16 else 128
    fitting = stages(context.device, (m + n) * k * (4 if is_single else 2), 3 if m > 64 else 4)
    return {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "WARPS": warps, "STAGES": fitting}


def _by_boxes(context: CardContext, fit: MatrixProduct) -> bool:
    """Whether descriptors name the tiles, for the copy engine to bring."""
    return has_descriptors(context.device) and (fit.a.dtype != "float32" or context.tf32)


_TILES = ((128, 256, 8), (128, 128, 8), (128, 64, 4), (64, 64, 4), (32, 64, 4), (16, 64, 4))
"""Rows, columns and warps."""


def _fills(
    context: CardContext, fit: MatrixProduct, choose: Callable[[Iterable[int]], int], m: int, n: int
) -> bool:
    """Whether there is a tile for most SMs, and rows for half a tile."""
    counts = [
        -(-rows // m) * -(-columns // n) * batch
        for rows, columns, batch in zip(fit.m, fit.n, fit.batch, strict=True)
    ]
    return choose(fit.m) > m // 2 and choose(counts) >= _enough(context)


def _enough(context: CardContext) -> int:
    """Tiles that keep most SMs busy: three quarters of them; chosen."""
    return -(-3 * context.device.cores // 4)


CARD = triton_card(
    launch,
    id="triton-matmul",
    title="Matrix product in Triton, in tiles on the matrix units",
    category="tiling",
    answers=frozenset(("compute", "memory", "latency", "unknown")),
    rationale=(
        "Tiles of C that stay in registers use what is loaded many times, loads run ahead of the "
        "matrix units, and tiles that share rows or columns find them in the L2 cache"
    ),
    expected_counter="tensor_pipe",
    expected_change="up to three quarters of the matrix units' rate",
    instruction="HGMMA or HMMA or v_mfma",
    source="Triton tutorials, Matrix Multiplication; Tillet et al., Triton, MAPL 2019",
    families=frozenset(("gemm",)),
)
