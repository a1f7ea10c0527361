"""Sum, mean, maximum, minimum or their places along an axis; in two stages if outputs are few."""

import torch
import triton
import triton.language as tl

TILE = 4096  # tune: TILE = 4096 [1024, 2048, 4096, 8192, 16384]
PER_THREAD = 16  # tune: PER_THREAD = 16 [4, 8, 16, 32]
PROGRAMS = 1024  # tune: PROGRAMS = 1024 [1, 128, 256, 512, 1024, 2048]


@triton.jit
def reduce_tiles(
    x, y, R, INNER, PART, factor, KIND: tl.constexpr, SIGN: tl.constexpr, LAST: tl.constexpr,
    OUT: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Part of the reduced axis, for some outputs: rows if the axis is the last, else columns."""
    blocks = tl.cdiv(INNER, OUT)
    outer, part = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(1)
    out = tl.program_id(0) % blocks * OUT + tl.arange(0, OUT)
    step = tl.arange(0, STEP)
    lowest: tl.constexpr = 0.0 if KIND == 0 else -float("inf")
    shape: tl.constexpr = (OUT, STEP) if LAST else (STEP, OUT)
    axis: tl.constexpr = 1 if LAST else 0
    total = tl.full(shape, lowest, tl.float32)
    where = tl.zeros(shape, tl.int32)
    for start in range(part * PART, tl.minimum(R, (part + 1) * PART), STEP):
        at = start + step
        if LAST:
            index = tl.broadcast_to(at[None, :], shape)
            inside = (out < INNER)[:, None] & (at < R)[None, :]
            offset = out.to(tl.int64)[:, None] * R + at[None, :]
        else:
            index = tl.broadcast_to(at[:, None], shape)
            inside = (at < R)[:, None] & (out < INNER)[None, :]
            offset = outer * R * INNER + at.to(tl.int64)[:, None] * INNER + out[None, :]
        value = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
        if KIND == 0:
            total += value
        else:
            value = tl.where(inside, value * SIGN, lowest)
            if KIND == 2:
                where = tl.where(value > total, index, where)
            total = tl.maximum(total, value)
    inside = out < INNER
    to = y + (part * (tl.num_programs(0) // blocks) + outer) * INNER + out
    if KIND == 0:
        result = tl.sum(total, axis=axis) * factor
    else:
        result = tl.max(total, axis=axis)
        if KIND == 2:
            best = result[:, None] if LAST else result[None, :]
            result = tl.min(tl.where(total == best, where, 2147483647), axis=axis)
        else:
            result = result * SIGN
    tl.store(to, result.to(y.dtype.element_ty), mask=inside)


def reduce(x, y, axis, kind):
    """Fill `y` with `x` reduced along an axis, or along all of them (None).

    `kind` is sum, mean, max, min, argmax or argmin.
    """
    shape = (1, x.numel(), 1) if axis is None else tuple(x.shape)
    axis = 1 if axis is None else axis
    R, outer, inner = shape[axis], 1, 1
    for size in shape[:axis]:
        outer *= size
    for size in shape[axis + 1 :]:
        inner *= size
    last = inner == 1
    outer, inner = (1, outer) if last else (outer, inner)
    narrow = triton.next_power_of_2(R)
    step = min(narrow, TILE) if last else min(narrow, max(1, TILE // 128))
    out = max(1, min(TILE // step if not last else 1024 // step, triton.next_power_of_2(inner)))
    blocks = triton.cdiv(inner, out) * outer
    parts = 1 if kind.startswith("arg") else min(triton.cdiv(R, step), max(1, PROGRAMS // blocks))
    part = triton.cdiv(triton.cdiv(R, parts), step) * step
    parts = triton.cdiv(R, part)
    options = {
        "KIND": 2 if kind.startswith("arg") else 0 if kind in ("sum", "mean") else 1,
        "SIGN": -1 if kind.endswith("min") else 1,
    }
    factor = 1.0 / R if kind == "mean" else 1.0
    first = y if parts == 1 else y.new_empty((parts, outer * inner), dtype=torch.float32)
    warps = max(1, min(16, out * step // (32 * PER_THREAD)))
    grid = (blocks, parts)
    reduce_tiles[grid](
        x, first, R, inner, part, factor, **options, LAST=last, OUT=out, STEP=step, num_warps=warps
    )
    if parts > 1:
        count, rows = outer * inner, triton.next_power_of_2(parts)
        out = min(triton.next_power_of_2(count), max(1, 4096 // rows))
        reduce_tiles[(triton.cdiv(count, out), 1)](
            first, y, parts, count, parts, 1.0, **options, LAST=False, OUT=out, STEP=rows,
            num_warps=4,
        )  # fmt: skip
