"""C = A B in bfloat16, summed in float32: one program per tile of C."""

import triton
import triton.language as tl

TILE = 32


@triton.jit
def matmul_tile(A, B, C, M, N, K, TILE: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, K, TILE):
        depth = start + tl.arange(0, TILE)
        a = tl.load(
            A + rows[:, None] * K + depth[None, :],
            mask=(rows[:, None] < M) & (depth[None, :] < K),
            other=0.0,
        )
        b = tl.load(
            B + depth[:, None] * N + columns[None, :],
            mask=(depth[:, None] < K) & (columns[None, :] < N),
            other=0.0,
        )
        total += tl.dot(a, b)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(C + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16), mask=inside)


def run_kernel(A, B, C, M, N, K):
    """Launch the kernel once; it fills `C`."""
    grid = (triton.cdiv(M, TILE), triton.cdiv(N, TILE))
    matmul_tile[grid](A, B, C, M, N, K, TILE=TILE)
