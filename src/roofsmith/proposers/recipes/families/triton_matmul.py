"""Matrix products in tiles, in Triton: plain, transposed, batched, with a bias."""

from __future__ import annotations

import re
from math import prod

from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.recipes.families._fit import MatrixProduct, matrix_product, says
from roofsmith.proposers.recipes.families._modules import Replacement, precision, triton_card

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
    return Replacement(
        "matmul",
        f"matmul({a}, {b}, {c}, {bias}, {m}, {n}, {k}, {sides}, {dot!r})",
        "Compute the matrix product in tiles that meet in the L2 cache",
        _settings(context, fit),
    )


def _settings(context: CardContext, fit: MatrixProduct) -> dict[str, int]:
    """Tiles as large as the matrix units like, and smaller ones where these leave SMs idle."""
    sizes = [(256, 128, 8), (128, 128, 8), (128, 64, 4), (64, 64, 4), (32, 64, 4), (16, 64, 4)]
    if fit.a.dtype == "float32":
        sizes = sizes[2:]
    rows = max(fit.m)
    for m, n, warps in sizes:
        tiles = [
            -(-m_ // m) * -(-n_ // n) * batch
            for m_, n_, batch in zip(fit.m, fit.n, fit.batch, strict=True)
        ]
        fits = rows > m // 2 and prod(tiles) ** (1 / len(tiles)) >= 0.75 * context.device.cores
        if fits or (m, n, warps) == sizes[-1]:
            break
    k = 32 if fit.a.dtype == "float32" else 64 if m > 16 else 128
    return {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "WARPS": warps, "STAGES": 3 if m > 64 else 4}


CARD = triton_card(
    launch,
    reached=0.75,
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
    source="Triton tutorials, Matrix Multiplication; Tillet et al., Triton, MAPL 2019",
    families=frozenset(("gemm",)),
)
