"""RMS or layer norm of every row, with what is added to the rows first."""

import triton
import triton.language as tl

HELD = 32768  # tune: HELD = 32768 [4096, 8192, 16384, 32768]
GROUP = 1024  # tune: GROUP = 1024 [1, 1024, 2048, 4096, 8192]
PER_THREAD = 16  # tune: PER_THREAD = 16 [4, 8, 16, 32, 64]


@triton.jit
def norm_held(
    x, residual, summed, weight, bias, y, N, D, eps,
    CENTRED: tl.constexpr, ADDED: tl.constexpr, KEPT: tl.constexpr,
    SCALED: tl.constexpr, SHIFTED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Several short rows, or a longer one, in the registers of one program."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    valid = columns < D
    inside = (rows[:, None] < N) & valid[None, :]
    at = rows.to(tl.int64)[:, None] * D + columns[None, :]
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if ADDED:
        value += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
        value = value.to(y.dtype.element_ty).to(tl.float32)
        if KEPT:
            tl.store(summed + at, value.to(summed.dtype.element_ty), mask=inside)
    if CENTRED:
        mean = tl.sum(value, axis=1) / D
        value = tl.where(inside, value - mean[:, None], 0.0)
    spread = tl.sum(value * value, axis=1) / D
    value = value * (1.0 / tl.sqrt(spread + eps))[:, None]
    if SCALED:
        value *= tl.load(weight + columns, mask=valid, other=0.0).to(tl.float32)[None, :]
    if SHIFTED:
        value += tl.load(bias + columns, mask=valid, other=0.0).to(tl.float32)[None, :]
    tl.store(y + at, value.to(y.dtype.element_ty), mask=inside)


@triton.jit
def piece(
    x, residual, summed, at, inside, ADDED: tl.constexpr, KEPT: tl.constexpr, FIRST: tl.constexpr
):
    """Part of a row in float32; the first time it may be kept, and is read from there later."""
    if KEPT and not FIRST:
        return tl.load(summed + at, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if ADDED:
        value += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
        value = value.to(x.dtype.element_ty).to(tl.float32)
        if KEPT:
            tl.store(summed + at, value.to(summed.dtype.element_ty), mask=inside)
    return value


@triton.jit
def norm_long(
    x, residual, summed, weight, bias, y, D, eps,
    CENTRED: tl.constexpr, ADDED: tl.constexpr, KEPT: tl.constexpr,
    SCALED: tl.constexpr, SHIFTED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row, piece by piece: every lane's statistics after Welford, then the values."""
    row = tl.program_id(0).to(tl.int64) * D
    columns = tl.arange(0, BLOCK)
    means = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, D, BLOCK):
        at = start + columns
        value = piece(x, residual, summed, row + at, at < D, ADDED, KEPT, True)
        if CENTRED:
            gap = tl.where(at < D, value - means, 0.0)
            means += gap / (start // BLOCK + 1)
            squares += gap * (value - means)
        else:
            squares += value * value
    mean = 0.0
    if CENTRED:
        counts = ((D - columns + BLOCK - 1) // BLOCK).to(tl.float32)
        mean = tl.sum(means * counts, axis=0) / D
        squares += counts * (means - mean) * (means - mean)
    spread = tl.sum(squares, axis=0) / D
    inverse = 1.0 / tl.sqrt(spread + eps)
    for start in range(0, D, BLOCK):
        at = start + columns
        value = piece(x, residual, summed, row + at, at < D, ADDED, KEPT, False)
        value = (value - mean if CENTRED else value) * inverse
        if SCALED:
            value *= tl.load(weight + at, mask=at < D, other=0.0).to(tl.float32)
        if SHIFTED:
            value += tl.load(bias + at, mask=at < D, other=0.0).to(tl.float32)
        tl.store(y + row + at, value.to(y.dtype.element_ty), mask=at < D)


def norm(x, y, weight, bias, residual, summed, eps, centred):
    """Fill `y` (..., D) with the norm of `x`, or of `x + residual`, which `summed` keeps.

    What is None isn't there. `centred` tells layer norm from RMS norm.
    """
    D = x.shape[-1]
    N = x.numel() // D
    arrays = (x, residual, summed, weight, bias, y)
    arrays = tuple(x if array is None else array for array in arrays)
    flags = {
        "CENTRED": centred,
        "ADDED": residual is not None,
        "KEPT": summed is not None,
        "SCALED": weight is not None,
        "SHIFTED": bias is not None,
    }
    if D > HELD:
        warps = max(1, min(16, HELD // 4 // (32 * PER_THREAD)))
        norm_long[(N,)](*arrays, D, eps, **flags, BLOCK=HELD // 4, num_warps=warps)
        return
    block = triton.next_power_of_2(D)
    rows = max(1, min(GROUP // block, triton.next_power_of_2(N)))
    warps = max(1, min(16, rows * block // (32 * PER_THREAD)))
    grid = (triton.cdiv(N, rows),)
    norm_held[grid](*arrays, N, D, eps, **flags, ROWS=rows, BLOCK=block, num_warps=warps)
