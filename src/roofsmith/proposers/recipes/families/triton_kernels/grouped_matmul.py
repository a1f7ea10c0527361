"""Rows of every group times the group's matrix, in tiles of all groups in one launch.

Sizes stay on the device: each program finds the group of its tile in a prefix sum of tiles, and the
grid is what groups of any size need at most.
"""

import torch
import triton
import triton.language as tl

BLOCK_M = 128  # tune: BLOCK_M = 128 [16, 32, 64, 128]
BLOCK_N = 256  # tune: BLOCK_N = 256 [32, 64, 128, 256]
BLOCK_K = 64  # tune: BLOCK_K = 64 [16, 32, 64, 128]
GROUP_M = 8  # tune: GROUP_M = 8 [1, 4, 8, 16]
STAGES = 3  # tune: STAGES = 3 [1, 2, 3, 4, 5]
WARPS = 8  # tune: WARPS = 8 [2, 4, 8, 16]
PROGRAMS_PER_SM = 64  # tune: PROGRAMS_PER_SM = 64 [1, 2, 4, 64]
"""At most; where there are fewer than tiles they stay, take one tile after another, and load for
the next while they store one."""
ADDRESSING = 1  # tune: ADDRESSING = 1 [1, 2]
"""1: by pointers; 2: by descriptors, whose boxes the copy engine brings (sm_90 and newer)."""


@triton.jit
def borders(groups, G, KIND: tl.constexpr, WIDTH: tl.constexpr):
    """First row of every group and the row behind its last, of sizes, ends or offsets."""
    g = tl.arange(0, WIDTH)
    if KIND == "sizes":
        sizes = tl.load(groups + g, mask=g < G, other=0).to(tl.int32)
        ends = tl.cumsum(sizes, axis=0)
        begins = ends - sizes
    else:
        first: tl.constexpr = 1 if KIND == "offsets" else 0
        ends = tl.load(groups + g + first, mask=g < G, other=0).to(tl.int32)
        there = (g < G) & (g + first > 0)
        begins = tl.load(groups + g + first - 1, mask=there, other=0).to(tl.int32)
    return begins, ends


@triton.jit
def sum_by_descriptors(
    a, b, group, first_m, first_n, K, TURNED_B: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A tile of C; boxes are filled up with zeros beyond a matrix of `b`."""
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        left = a.load([first_m, start])
        if TURNED_B:
            right = b.load([group, first_n, start]).reshape(BLOCK_N, BLOCK_K).T
        else:
            right = b.load([group, start, first_n]).reshape(BLOCK_K, BLOCK_N)
        total = tl.dot(left, right, total)
    return total


@triton.jit
def sum_by_pointers(
    a, b, m, n, N, K, row_b, column_b, PRECISION: tl.constexpr, WHOLE_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A tile of C: rows `m` of `a`, columns `n` of the matrix at `b`."""
    k = tl.arange(0, BLOCK_K)
    at_a = a + m.to(tl.int64)[:, None] * K + k[None, :]
    at_b = b + k[:, None] * row_b + (n % N).to(tl.int64)[None, :] * column_b
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        if WHOLE_K:
            left, right = tl.load(at_a), tl.load(at_b)
        else:
            left = tl.load(at_a, mask=k[None, :] < K - start, other=0.0)
            right = tl.load(at_b, mask=k[:, None] < K - start, other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
        at_a += BLOCK_K
        at_b += BLOCK_K * row_b
    return total


@triton.jit
def grouped_tiles(
    a, b, c, groups, G, N, K, row_b, column_b,
    KIND: tl.constexpr, WIDTH: tl.constexpr, TURNED_B: tl.constexpr, DESCRIBED: tl.constexpr,
    STAYING: tl.constexpr, PRECISION: tl.constexpr, WHOLE_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Tiles of all groups, those of a few rows of tiles of a group after one another."""
    begins, ends = borders(groups, G, KIND, WIDTH)
    tiles_n = tl.cdiv(N, BLOCK_N)
    heights = tl.cdiv(tl.maximum(ends - begins, 0), BLOCK_M)
    until = tl.cumsum(heights, axis=0) * tiles_n
    g = tl.arange(0, WIDTH)
    last, step = tl.max(until, axis=0), tl.num_programs(0)
    for tile in tl.range(tl.program_id(0), last, step, flatten=STAYING):
        group = tl.sum((until <= tile).to(tl.int32), axis=0)
        begin = tl.sum(tl.where(g == group, begins, 0), axis=0)
        end = tl.sum(tl.where(g == group, ends, 0), axis=0)
        height = tl.cdiv(end - begin, BLOCK_M)
        place = tile - tl.sum(tl.where(g == group, until, 0), axis=0) + height * tiles_n
        strip, within = place // (GROUP_M * tiles_n), place % (GROUP_M * tiles_n)
        rows = tl.minimum(height - strip * GROUP_M, GROUP_M)
        first_m = begin + (strip * GROUP_M + within % rows) * BLOCK_M
        first_n = (within // rows) * BLOCK_N
        m, n = first_m + tl.arange(0, BLOCK_M), first_n + tl.arange(0, BLOCK_N)
        if DESCRIBED:
            total = sum_by_descriptors(
                a, b, group, first_m, first_n, K, TURNED_B, BLOCK_M, BLOCK_N, BLOCK_K
            )
        else:
            total = sum_by_pointers(
                a, b + group.to(tl.int64) * N * K, tl.minimum(m, end - 1), n, N, K,
                row_b, column_b, PRECISION, WHOLE_K, BLOCK_M, BLOCK_N, BLOCK_K,
            )  # fmt: skip
        at_c = c + m.to(tl.int64)[:, None] * N + n[None, :]
        inside = (m < end)[:, None] & (n < N)[None, :]
        tl.store(at_c, total.to(c.dtype.element_ty), mask=inside)


def is_described(array):
    """Whether its rows begin at multiples of 16 bytes, as the copy engine's do."""
    return array.data_ptr() % 16 == 0 and array.shape[-1] * array.element_size() % 16 == 0


def grouped_matmul(a, b, c, groups, kind, transposed_b, precision):
    """Fill the rows of `c` that are in a group, (M, K) by (G, K, N)."""
    (M, K), N, G = a.shape, c.shape[-1], b.shape[0]
    tiles = min(M, triton.cdiv(M + G * (BLOCK_M - 1), BLOCK_M)) * triton.cdiv(N, BLOCK_N)
    count = torch.cuda.get_device_properties(c.device).multi_processor_count if c.is_cuda else 1
    strides_b = (1, K) if transposed_b else (N, 1)
    described = ADDRESSING == 2 and a.element_size() == 2 and is_described(a) and is_described(b)
    if described:
        from triton.tools.tensor_descriptor import TensorDescriptor

        box = [BLOCK_N, BLOCK_K] if transposed_b else [BLOCK_K, BLOCK_N]
        a = TensorDescriptor.from_tensor(a, [BLOCK_M, BLOCK_K])
        b = TensorDescriptor.from_tensor(b, [1, *box])
    programs = min(tiles, PROGRAMS_PER_SM * count)
    grouped_tiles[(programs,)](
        a, b, c, groups, G, N, K, *strides_b, KIND=kind, WIDTH=triton.next_power_of_2(G),
        TURNED_B=transposed_b, DESCRIBED=described, STAYING=programs < tiles, PRECISION=precision,
        WHOLE_K=K % BLOCK_K == 0, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
        GROUP_M=GROUP_M, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
