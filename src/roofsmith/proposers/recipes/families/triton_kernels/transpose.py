"""Matrices transposed in square tiles: both sides touch memory along their rows."""

import triton
import triton.language as tl

TILE = 64  # tune: TILE = 64 [16, 32, 64, 128]
WARPS = 4  # tune: WARPS = 4 [2, 4, 8, 16]


@triton.jit
def transpose_tiles(x, y, M, N, TILE: tl.constexpr):
    """One tile of one matrix."""
    across, down = tl.cdiv(N, TILE), tl.cdiv(M, TILE)
    base = (tl.program_id(0) // (across * down)).to(tl.int64) * M * N
    m = tl.program_id(0) // across % down * TILE + tl.arange(0, TILE)
    n = tl.program_id(0) % across * TILE + tl.arange(0, TILE)
    inside = (m < M)[:, None] & (n < N)[None, :]
    tile = tl.load(x + base + m.to(tl.int64)[:, None] * N + n[None, :], mask=inside)
    inside = (n < N)[:, None] & (m < M)[None, :]
    tl.store(y + base + n.to(tl.int64)[:, None] * M + m[None, :], tl.trans(tile), mask=inside)


def transpose(x, y):
    """Fill `y` (..., N, M) with the transposed matrices of `x` (..., M, N)."""
    M, N = x.shape[-2:]
    tiles = triton.cdiv(N, TILE) * triton.cdiv(M, TILE)
    transpose_tiles[(tiles * (x.numel() // (M * N)),)](x, y, M, N, TILE=TILE, num_warps=WARPS)
