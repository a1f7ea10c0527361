"""Rows as 8-bit integers or floats, each with the scale that its largest element asks for."""

import torch
import triton
import triton.language as tl

GROUP = 2048  # tune: GROUP = 2048 [1, 1024, 2048, 4096, 8192]
PER_THREAD = 16  # tune: PER_THREAD = 16 [8, 16, 32, 64]


@triton.jit
def quantise_rows(
    x, y, scales, N, D, lowest, FLOAT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Whole rows in the registers of one program."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    inside = (rows < N)[:, None] & (columns < D)[None, :]
    at = rows.to(tl.int64)[:, None] * D + columns[None, :]
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    limit: tl.constexpr = 448.0 if FLOAT else 127.0
    largest = tl.maximum(tl.max(tl.abs(value), axis=1), lowest)
    scale = largest * (1.0 / limit)  # as PyTorch divides on a GPU: ties round alike
    tl.store(scales + rows, scale, mask=rows < N)
    value = tl.div_rn(value, tl.broadcast_to(scale[:, None], (ROWS, BLOCK)))
    value = tl.minimum(tl.maximum(value, -limit), limit)
    if FLOAT:
        result = value.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
    else:
        result = ((value + 12582912.0) - 12582912.0).to(tl.int8)  # to the nearest, ties to even
    tl.store(y + at, result, mask=inside)


def quantise(x, y, scales, lowest):
    """Fill `y` (..., D) and `scales` (...) such that `y * scales` is about `x`.

    `y` is int8, or the bits of float8 (e4m3) as uint8.
    No largest element counts less than `lowest`.
    """
    D = x.shape[-1]
    N = x.numel() // D
    block = triton.next_power_of_2(D)
    rows = max(1, min(GROUP // block, triton.next_power_of_2(N)))
    warps = max(1, min(16, rows * block // (32 * PER_THREAD)))
    is_float = y.dtype == torch.uint8
    grid = (triton.cdiv(N, rows),)
    quantise_rows[grid](
        x, y, scales, N, D, lowest, FLOAT=is_float, ROWS=rows, BLOCK=block, num_warps=warps
    )
