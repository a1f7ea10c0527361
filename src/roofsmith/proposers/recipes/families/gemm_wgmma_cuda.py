"""Replace a matrix product of 16-bit floats by one with Hopper's warpgroup instructions."""

from __future__ import annotations

from roofsmith.proposers import tunables
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.reach import reaching
from roofsmith.proposers.recipes.families._fit import MatrixProduct
from roofsmith.proposers.recipes.families._gemm_cuda import half_product, with_half

_ARCHITECTURE = "sm_90"
"""The only one that has these instructions: PTX ISA, wgmma."""
_IN_A_ROW = 8
"""Elements in 16 bytes: rows that the copy engine takes are made of whole ones."""


def apply(context: CardContext) -> CardChange | None:
    """One product of float16 or bfloat16 matrices, B transposed or not."""
    fit = half_product(context)
    if fit is None:
        return None
    widths = (*fit.n, *fit.k)
    if context.device.arch != _ARCHITECTURE or any(width % _IN_A_ROW for width in widths):
        return None
    how = "with instructions of whole warpgroups, tiles brought by the copy engine"
    change = with_half(context, fit, "gemm_wgmma", how)
    if change is None:
        return None
    settings = _settings(fit, context.device.cores)
    return CardChange(tunables.apply(change.candidate, settings), change.statement)


_ROWS = 128
_TILES = ((256, 4, 2), (128, 5, 2), (64, 6, 1))
"""Columns of a tile of C, stages, and blocks of a cluster; measured on an H100."""
_FILLED = 0.75
"""Part of the multiprocessors that have a tile, from which on larger tiles are faster."""


def _settings(fit: MatrixProduct, multiprocessors: int) -> dict[str, int]:
    """The widest tiles of which there is one for most multiprocessors, on every workload."""

    def fill(columns: int) -> bool:
        tiles = (-(-m // _ROWS) * -(-n // columns) for m, n in zip(fit.m, fit.n, strict=True))
        return min(tiles) >= _FILLED * multiprocessors

    columns, stages, cluster = next((tile for tile in _TILES if fill(tile[0])), _TILES[-1])
    return {"BN": columns, "STAGES": stages, "CLUSTER": cluster}


CARD = Card(
    id="gemm-wgmma",
    title="16-bit matrix product by warpgroups",
    category="tiling",
    answers=frozenset(("compute", "memory", "latency", "unknown")),
    rationale=(
        "Hopper's tensor cores reach their rate only by instructions of whole warpgroups, which "
        "read tiles from shared memory; one warp has the copy engine bring them, several ahead"
    ),
    expected_counter="tensor_pipe",
    expected_change="up, to three quarters of what the pipe can do",
    source=(
        "NVIDIA, PTX ISA, wgmma.mma_async and cp.async.bulk.tensor; CUTLASS, Efficient GEMM in CUDA"
    ),
    apply=apply,
    predict=reaching("gemm-wgmma"),
    families=frozenset(("gemm",)),
    languages=frozenset(("cuda",)),
)
