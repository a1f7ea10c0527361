"""C = A B in tiles, those of a few rows of tiles after one another, so that they meet in L2."""

import triton
import triton.language as tl

BLOCK_M = 128  # tune: BLOCK_M = 128 [32, 64, 128, 256]
BLOCK_N = 256  # tune: BLOCK_N = 256 [32, 64, 128, 256]
BLOCK_K = 64  # tune: BLOCK_K = 64 [16, 32, 64, 128]
GROUP_M = 8  # tune: GROUP_M = 8 [1, 4, 8, 16]
STAGES = 3  # tune: STAGES = 3 [1, 2, 3, 4, 5]
WARPS = 8  # tune: WARPS = 8 [2, 4, 8, 16]


@triton.jit
def matmul_tiles(
    a, b, c, bias, M, N, K, row_a, column_a, row_b, column_b,
    PRECISION: tl.constexpr, BIASED: tl.constexpr, WHOLE_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """One tile of one matrix of the batch."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    batch = (tl.program_id(0) // (tiles_m * tiles_n)).to(tl.int64)
    tile = tl.program_id(0) % (tiles_m * tiles_n)
    group, within = tile // (GROUP_M * tiles_n), tile % (GROUP_M * tiles_n)
    height = tl.minimum(tiles_m - group * GROUP_M, GROUP_M)
    first_m = (group * GROUP_M + within % height) * BLOCK_M
    first_n = (within // height) * BLOCK_N
    m, n = first_m + tl.arange(0, BLOCK_M), first_n + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    at_a = a + batch * M * K + (m % M).to(tl.int64)[:, None] * row_a + k[None, :] * column_a
    at_b = b + batch * K * N + k[:, None] * row_b + (n % N).to(tl.int64)[None, :] * column_b
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        if WHOLE_K:
            left, right = tl.load(at_a), tl.load(at_b)
        else:
            left = tl.load(at_a, mask=k[None, :] < K - start, other=0.0)
            right = tl.load(at_b, mask=k[:, None] < K - start, other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
        at_a += BLOCK_K * column_a
        at_b += BLOCK_K * row_b
    if BIASED:
        total += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    at_c = c + batch * M * N + m.to(tl.int64)[:, None] * N + n[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(at_c, total.to(c.dtype.element_ty), mask=inside)


def matmul(a, b, c, bias, M, N, K, transposed_a, transposed_b, precision):
    """Fill `c` with products of (M, K) and (K, N) matrices, as many as there are in it."""
    strides_a = (1, M) if transposed_a else (K, 1)
    strides_b = (1, K) if transposed_b else (N, 1)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    matmul_tiles[(tiles * (c.numel() // (M * N)),)](
        a, b, c, c if bias is None else bias, M, N, K, *strides_a, *strides_b,
        PRECISION=precision, BIASED=bias is not None, WHOLE_K=K % BLOCK_K == 0,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=GROUP_M,
        num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
