"""Rows of every group times that group's matrix: a program per tile that a group might have."""

import triton
import triton.language as tl

TILE = 32


@triton.jit
def grouped_tile(x, w, offsets, y, K, N, TILE: tl.constexpr):
    group = tl.program_id(2)
    begin, end = tl.load(offsets + group), tl.load(offsets + group + 1)
    rows = begin + tl.program_id(1) * TILE + tl.arange(0, TILE)
    if begin + tl.program_id(1) * TILE < end:
        columns = tl.program_id(0) * TILE + tl.arange(0, TILE)
        w += group.to(tl.int64) * K * N
        total = tl.zeros((TILE, TILE), dtype=tl.float32)
        for start in range(0, K, TILE):
            depth = start + tl.arange(0, TILE)
            left = tl.load(
                x + rows[:, None] * K + depth[None, :],
                mask=(rows[:, None] < end) & (depth[None, :] < K),
                other=0.0,
            )
            right = tl.load(
                w + depth[:, None] * N + columns[None, :],
                mask=(depth[:, None] < K) & (columns[None, :] < N),
                other=0.0,
            )
            total += tl.dot(left, right)
        inside = (rows[:, None] < end) & (columns[None, :] < N)
        tl.store(y + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16), mask=inside)


def run_kernel(x, w, offsets, y, T, K, N, G):
    """Launch the kernel once; it fills `y`."""
    grid = (triton.cdiv(N, TILE), triton.cdiv(T, TILE), G)
    grouped_tile[grid](x, w, offsets, y, K, N, TILE=TILE)
