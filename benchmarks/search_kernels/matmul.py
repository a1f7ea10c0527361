"""C = A B in tiles, those of a few rows of tiles after one another, so that they meet in L2.

Where tiles are few, several programs share one along K, and a second launch adds what they got.
"""

import torch
import triton
import triton.language as tl

BLOCK_M = 128  # tune: BLOCK_M = 128 [32, 64, 128, 256]
BLOCK_N = 256  # tune: BLOCK_N = 256 [32, 64, 128, 256]
BLOCK_K = 64  # tune: BLOCK_K = 64 [16, 32, 64, 128]
GROUP_M = 8  # tune: GROUP_M = 8 [1, 4, 8, 16]
STAGES = 3  # tune: STAGES = 3 [1, 2, 3, 4, 5]
WARPS = 8  # tune: WARPS = 8 [2, 4, 8, 16]
PROGRAMS = 128  # tune: PROGRAMS = 128 [1, 128, 256, 512]
PROGRAMS_PER_SM = 64  # tune: PROGRAMS_PER_SM = 64 [1, 2, 64]
"""At most, of those by descriptors; where there are fewer than tiles they take one after another,
and load for the next tile while they store one."""
ADDRESSING = 1  # tune: ADDRESSING = 1 [1, 2]
"""1: by pointers; 2: by descriptors, whose boxes the copy engine brings (sm_90 and newer)."""


@triton.jit
def place(tile, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """First row and column of a tile."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group, within = tile // (GROUP_M * tiles_n), tile % (GROUP_M * tiles_n)
    height = tl.minimum(tiles_m - group * GROUP_M, GROUP_M)
    return (group * GROUP_M + within % height) * BLOCK_M, (within // height) * BLOCK_N


@triton.jit
def matmul_tiles(
    a, b, c, bias, M, N, K, DEPTH, row_a, column_a, row_b, column_b,
    PRECISION: tl.constexpr, BIASED: tl.constexpr, WHOLE_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """One tile of one matrix of the batch, or a part of its sum: DEPTH elements of K."""
    part = tl.program_id(1)
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    batch = (tl.program_id(0) // tiles).to(tl.int64)
    first_m, first_n = place(tl.program_id(0) % tiles, M, N, BLOCK_M, BLOCK_N, GROUP_M)
    m, n = first_m + tl.arange(0, BLOCK_M), first_n + tl.arange(0, BLOCK_N)
    k, begin = tl.arange(0, BLOCK_K), part * DEPTH
    a += batch * M * K + begin.to(tl.int64) * column_a
    b += batch * K * N + begin.to(tl.int64) * row_b
    at_a = a + (m % M).to(tl.int64)[:, None] * row_a + k[None, :] * column_a
    at_b = b + k[:, None] * row_b + (n % N).to(tl.int64)[None, :] * column_b
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(begin, tl.minimum(K, begin + DEPTH), BLOCK_K):
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
    count = tl.num_programs(0) // tiles
    at_c = c + (part * count + batch) * M * N + m.to(tl.int64)[:, None] * N + n[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(at_c, total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def add_parts(parts, c, bias, N, COUNT, PARTS, BIASED: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of the parts of a tile, always in the same order."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    at_part = parts + at
    for _ in range(PARTS):
        total += tl.load(at_part, mask=at < COUNT, other=0.0)
        at_part += COUNT
    if BIASED:
        total += tl.load(bias + at % N, mask=at < COUNT, other=0.0).to(tl.float32)
    tl.store(c + at, total.to(c.dtype.element_ty), mask=at < COUNT)


@triton.jit
def described_tile(
    tile, a, b, c, bias, M, N, K, TURNED_A: tl.constexpr, TURNED_B: tl.constexpr,
    EXCHANGED: tl.constexpr, PRECISION: tl.constexpr, BIASED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """One tile, of arrays by descriptors: the copy engine brings boxes of them."""
    first_m, first_n = place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
    total = tl.zeros((BLOCK_N, BLOCK_M) if EXCHANGED else (BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        left = a.load([start, first_m]).T if TURNED_A else a.load([first_m, start])
        right = b.load([first_n, start]).T if TURNED_B else b.load([start, first_n])
        if EXCHANGED:  # the sum keeps what lies across K in registers: 32 bits can't be turned
            total = tl.dot(right.T + 0.0, left.T, total, input_precision=PRECISION)
        else:
            total = tl.dot(left, right, total, input_precision=PRECISION)
    if EXCHANGED:
        total = total.T
    if BIASED:
        n = first_n + tl.arange(0, BLOCK_N)
        total += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    c.store([first_m, first_n], total.to(c.dtype))


@triton.jit
def described_tiles(
    a, b, c, bias, M, N, K, TURNED_A: tl.constexpr, TURNED_B: tl.constexpr, EXCHANGED: tl.constexpr,
    STAYING: tl.constexpr, PRECISION: tl.constexpr, BIASED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """The tile of a program; or, where it stays, every one that it comes to."""
    if STAYING:
        tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
        for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
            described_tile(
                tile, a, b, c, bias, M, N, K, TURNED_A, TURNED_B, EXCHANGED, PRECISION, BIASED,
                BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
            )  # fmt: skip
    else:
        described_tile(
            tl.program_id(0), a, b, c, bias, M, N, K, TURNED_A, TURNED_B, EXCHANGED, PRECISION,
            BIASED, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
        )  # fmt: skip


def is_described(array):
    """Whether its rows begin at multiples of 16 bytes, as the copy engine's do."""
    return array.data_ptr() % 16 == 0 and array.shape[-1] * array.element_size() % 16 == 0


def matmul(a, b, c, bias, M, N, K, transposed_a, transposed_b, precision, few=0, small=None):
    """Fill `c` with products of (M, K) and (K, N) matrices, as many as there are in it.

    Where there are fewer tiles than `few`, they are `small`: rows, columns, depth, warps, stages.
    """
    batch = c.numel() // (M * N)
    large = BLOCK_M, BLOCK_N, BLOCK_K, WARPS, STAGES
    is_small = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N) * batch < few
    rows, columns, step, warps, stages = small if is_small else large
    tiles = triton.cdiv(M, rows) * triton.cdiv(N, columns)
    how = {
        "PRECISION": precision, "BIASED": bias is not None, "BLOCK_M": rows, "BLOCK_N": columns,
        "BLOCK_K": step, "GROUP_M": GROUP_M, "num_warps": warps, "num_stages": stages,
    }  # fmt: skip
    bias = c if bias is None else bias
    programs = tiles * batch
    parts = max(1, min(PROGRAMS // programs, K // (4 * step)))
    described = ADDRESSING == 2 and programs == tiles and all(map(is_described, (a, b, c)))
    if described and (parts == 1 or precision == "tf32"):
        from triton.tools.tensor_descriptor import TensorDescriptor

        def boxes(array, height, width, *box):
            return TensorDescriptor.from_tensor(array.view(height, width), list(box))

        count = torch.cuda.get_device_properties(c.device).multi_processor_count if c.is_cuda else 1
        staying = min(tiles, PROGRAMS_PER_SM * count)
        described_tiles[(staying,)](
            boxes(a, K, M, step, rows) if transposed_a else boxes(a, M, K, rows, step),
            boxes(b, N, K, columns, step) if transposed_b else boxes(b, K, N, step, columns),
            boxes(c, M, N, rows, columns), bias, M, N, K, TURNED_A=transposed_a,
            TURNED_B=transposed_b, EXCHANGED=precision == "tf32" and not transposed_b,
            STAYING=staying < tiles, **how,
        )  # fmt: skip
        return
    strides_a = (1, M) if transposed_a else (K, 1)
    strides_b = (1, K) if transposed_b else (N, 1)
    depth = triton.cdiv(triton.cdiv(K, parts), step) * step
    sums = c if parts == 1 else torch.empty((parts, c.numel()), device=c.device)
    matmul_tiles[(programs, parts)](
        a, b, sums, bias, M, N, K, depth, *strides_a, *strides_b,
        WHOLE_K=K % step == 0, **(how if parts == 1 else {**how, "BIASED": False}),
    )  # fmt: skip
    if parts > 1:
        add_parts[(triton.cdiv(c.numel(), 1024),)](
            sums, c, bias, N, c.numel(), parts, BIASED=how["BIASED"], BLOCK=1024
        )
