"""Softmax or log-softmax of every row: whole rows in registers, long ones in two passes."""

import triton
import triton.language as tl

HELD = 32768  # tune: HELD = 32768 [4096, 8192, 16384, 32768]
GROUP = 2048  # tune: GROUP = 2048 [1, 1024, 2048, 4096, 8192]
PER_THREAD = 32  # tune: PER_THREAD = 32 [4, 8, 16, 32, 64]


@triton.jit
def softmax_held(x, y, N, D, LOG: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Several short rows, or a longer one, in the registers of one program."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    inside = (rows[:, None] < N) & (columns[None, :] < D)
    at = tl.minimum(rows, N - 1).to(tl.int64)[:, None] * D + columns[None, :]
    value = tl.load(x + at, mask=columns[None, :] < D, other=-float("inf")).to(tl.float32)
    value = value - tl.max(value, axis=1)[:, None]
    weight = tl.exp(value)
    total = tl.sum(weight, axis=1)[:, None]
    result = value - tl.log(total) if LOG else weight / total
    tl.store(y + at, result.to(y.dtype.element_ty), mask=inside)


@triton.jit
def softmax_long(x, y, D, LOG: tl.constexpr, BLOCK: tl.constexpr):
    """One row, piece by piece: maxima and sums of every lane first, then the quotients."""
    row = tl.program_id(0).to(tl.int64) * D
    columns = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, D, BLOCK):
        at = start + columns
        value = tl.load(x + row + at, mask=at < D, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(largest, value)
        finite = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(largest - finite) + tl.exp(value - finite)
        largest = higher
    top = tl.max(largest, axis=0)
    total = tl.sum(total * tl.exp(largest - top), axis=0)
    for start in range(0, D, BLOCK):
        at = start + columns
        value = tl.load(x + row + at, mask=at < D, other=0.0).to(tl.float32) - top
        result = value - tl.log(total) if LOG else tl.exp(value) / total
        tl.store(y + row + at, result.to(y.dtype.element_ty), mask=at < D)


def softmax(x, y, log):
    """Fill `y` (..., D) with the softmax of the last axis of `x` (..., D)."""
    D = x.shape[-1]
    N = x.numel() // D
    if D > HELD:
        warps = max(1, min(16, HELD // 4 // (32 * PER_THREAD)))
        softmax_long[(N,)](x, y, D, log, BLOCK=HELD // 4, num_warps=warps)
        return
    block = triton.next_power_of_2(D)
    rows = max(1, min(GROUP // block, triton.next_power_of_2(N)))
    warps = max(1, min(16, rows * block // (32 * PER_THREAD)))
    grid = (triton.cdiv(N, rows),)
    softmax_held[grid](x, y, N, D, log, ROWS=rows, BLOCK=block, num_warps=warps)
