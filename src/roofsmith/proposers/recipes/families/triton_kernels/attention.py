"""Attention whose scores never leave the chip: the softmax goes along with the products."""

import torch
import triton
import triton.language as tl

BLOCK_M = 128  # tune: BLOCK_M = 128 [32, 64, 128, 256]
BLOCK_N = 64  # tune: BLOCK_N = 64 [32, 64, 128]
STAGES = 3  # tune: STAGES = 3 [1, 2, 3, 4]
WARPS = 4  # tune: WARPS = 4 [4, 8, 16]
ADDRESSING = 1  # tune: ADDRESSING = 1 [1, 2]
"""1: by pointers; 2: by descriptors, whose boxes the copy engine brings (sm_90 and newer)."""


@triton.jit
def nearest(x, PRECISION: tl.constexpr):
    """What TF32 products read, rounded: they cut off what lies behind ten bits, always down."""
    if PRECISION != "tf32":
        return x
    bits = x.to(tl.int32, bitcast=True) + 0x1000 & -0x2000
    return tl.where(x == x, bits.to(tl.float32, bitcast=True), x)


@triton.jit
def round_keys(k, rounded, COUNT, BLOCK: tl.constexpr):
    """Rounded once, since products read them from shared memory, as the copy engine brings them."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(k + at, mask=at < COUNT, other=0.0)
    tl.store(rounded + at, nearest(key, "tf32"), mask=at < COUNT)


@triton.jit
def attend(
    q, total, top, weight, at_k, at_v, step, begin, end, m, n, d, D, S_K, scale,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, WHOLE_D: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Keys from `begin` to `end` for a block of queries, masked only where they have to be."""
    for start in range(begin, end, BLOCK_N):
        columns = start + n
        seen = (columns < S_K)[:, None] & (d < D)[None, :]
        key = tl.load(at_k, mask=seen, other=0.0) if MASKED or not WHOLE_D else tl.load(at_k)
        scores = tl.dot(q, nearest(key, PRECISION).T, input_precision=PRECISION)
        if MASKED:
            valid = (columns < S_K)[None, :]
            if CAUSAL:
                valid = valid & (m[:, None] >= columns[None, :])
            scores = tl.where(valid, scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, axis=1) * scale)
        finite = tl.where(higher == -float("inf"), 0.0, higher)
        share = tl.exp2(scores * scale - finite[:, None])
        faded = tl.exp2(top - finite)
        weight = weight * faded + tl.sum(share, axis=1)
        value = tl.load(at_v, mask=seen, other=0.0) if MASKED or not WHOLE_D else tl.load(at_v)
        total = total * faded[:, None]
        share, value = nearest(share.to(value.dtype), PRECISION), nearest(value, PRECISION)
        total = tl.dot(share, value, total, input_precision=PRECISION)
        top = higher
        at_k += BLOCK_N * step
        at_v += BLOCK_N * step
    return total, top, weight, at_k, at_v


@triton.jit
def attention_blocks(
    q, k, v, o, H, S_Q, S_K, D, scale, batch_q, head_q, step_q, batch_k, head_k, step_k,
    CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, WHOLE_D: tl.constexpr,
):  # fmt: skip
    """One block of queries of one head."""
    batch, head = (tl.program_id(1) // H).to(tl.int64), (tl.program_id(1) % H).to(tl.int64)
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M
    m, n, d = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
    at_q = batch * batch_q + head * head_q + m.to(tl.int64)[:, None] * step_q + d[None, :]
    inside = (m[:, None] < S_Q) & (d[None, :] < D)
    query = nearest(tl.load(q + at_q, mask=inside, other=0.0), PRECISION)
    base = batch * batch_k + head * head_k + n[:, None] * step_k + d[None, :]
    at_k, at_v = k + base, v + base
    total = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    end = tl.minimum(S_K, first + BLOCK_M) if CAUSAL else S_K
    whole = tl.minimum(first, S_K) // BLOCK_N * BLOCK_N if CAUSAL else S_K // BLOCK_N * BLOCK_N
    total, top, weight, at_k, at_v = attend(
        query, total, top, weight, at_k, at_v, step_k, 0, whole, m, n, d, D, S_K, scale,
        False, CAUSAL, WHOLE_D, PRECISION, BLOCK_N,
    )  # fmt: skip
    total, top, weight, at_k, at_v = attend(
        query, total, top, weight, at_k, at_v, step_k, whole, end, m, n, d, D, S_K, scale,
        True, CAUSAL, WHOLE_D, PRECISION, BLOCK_N,
    )  # fmt: skip
    tl.store(o + at_q, (total / weight[:, None]).to(o.dtype.element_ty), mask=inside)


@triton.jit
def described_blocks(
    q, k, v, o, H, S_K, scale, CAUSAL: tl.constexpr, EXCHANGED: tl.constexpr,
    HELD: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """One block of queries of one head, of arrays by descriptors of (B, H, S, D)."""
    batch, head = tl.program_id(1) // H, tl.program_id(1) % H
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M
    m, n = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    query = nearest(q.load([batch, head, first, 0]).reshape(BLOCK_M, BLOCK_D), PRECISION)
    if HELD:
        query += 0.0  # what is computed is kept in registers, which every product then reads
    total = tl.zeros((BLOCK_D, BLOCK_M) if EXCHANGED else (BLOCK_M, BLOCK_D), tl.float32)
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    end = tl.minimum(S_K, first + BLOCK_M) if CAUSAL else S_K
    whole = tl.minimum(first, S_K) // BLOCK_N * BLOCK_N if CAUSAL else S_K // BLOCK_N * BLOCK_N
    for start in range(0, end, BLOCK_N):
        key = k.load([batch, head, start, 0]).reshape(BLOCK_N, BLOCK_D)
        scores = tl.dot(query, key.T, input_precision=PRECISION)
        if start >= whole:
            valid = (start + n < S_K)[None, :]
            if CAUSAL:
                valid = valid & (m[:, None] >= (start + n)[None, :])
            scores = tl.where(valid, scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, axis=1) * scale)
        share = tl.exp2(scores * scale - higher[:, None])
        faded = tl.exp2(top - higher)
        weight = weight * faded + tl.sum(share, axis=1)
        top = higher
        value = v.load([batch, head, start, 0]).reshape(BLOCK_N, BLOCK_D)
        if EXCHANGED:  # of 32 bits, only a left operand, in registers, can lie across the sum
            value = nearest(value, PRECISION).T + 0.0
            share = nearest(share, PRECISION).T
            total = tl.dot(value, share, total * faded, input_precision=PRECISION)
        else:
            total = total * faded[:, None]
            total = tl.dot(share.to(value.dtype), value, total, input_precision=PRECISION)
    total = total.T if EXCHANGED else total
    total = (total / weight[:, None]).to(o.dtype)
    o.store([batch, head, first, 0], total.reshape(1, 1, BLOCK_M, BLOCK_D))


def is_described(x):
    """Whether its rows begin at multiples of 16 bytes, as the copy engine's do."""
    starts = (x.data_ptr(), *(step * x.element_size() for step in x.stride()[:-1]))
    return all(start % 16 == 0 for start in starts)


def attention(q, k, v, o, heads, heads_last, scale, causal, precision):
    """Fill `o` with softmax(Q K^T scale) V.

    Arrays are (B, H, S, D), (B, S, H, D) with `heads_last`, (B * H, S, D), (S, D), or (S, H * D)
    with a number of `heads`.
    """
    if heads is not None:
        q, k, v, o = (array.view(1, array.shape[0], heads, -1) for array in (q, k, v, o))
    elif q.dim() < 4:
        q, k, v, o = (array.view(-1, 1, *array.shape[-2:]) for array in (q, k, v, o))
    if heads_last:
        q, k, v, o = (x.transpose(1, 2) for x in (q, k, v, o))
    (B, H, S_Q, D), S_K = q.shape, k.shape[2]
    block = max(16, triton.next_power_of_2(D))
    scale = (D**-0.5 if scale is None else scale) * 1.4426950408889634  # exp(x) = exp2(x log2(e))
    grid = (triton.cdiv(S_Q, BLOCK_M), B * H)
    how = {
        "CAUSAL": causal, "PRECISION": precision, "BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N,
        "BLOCK_D": block, "num_warps": WARPS, "num_stages": STAGES,
    }  # fmt: skip
    if ADDRESSING == 2 and all(map(is_described, (q, k, v, o))):
        from triton.tools.tensor_descriptor import TensorDescriptor

        if precision == "tf32":
            rounded = torch.empty_like(k)
            round_keys[(triton.cdiv(k.numel(), 1024),)](k, rounded, k.numel(), BLOCK=1024)
            k = rounded
        boxes = [
            TensorDescriptor.from_tensor(x, [1, 1, rows, block])
            for x, rows in ((q, BLOCK_M), (k, BLOCK_N), (v, BLOCK_N), (o, BLOCK_M))
        ]
        held = block == 128 and BLOCK_N == 64  # wrong in Triton 3.6 where these are the same
        exchanged = precision != "ieee"
        described_blocks[grid](*boxes, H, S_K, scale, EXCHANGED=exchanged, HELD=held, **how)
        return
    strides = (*q.stride()[:3], *k.stride()[:3])
    attention_blocks[grid](q, k, v, o, H, S_Q, S_K, D, scale, *strides, WHOLE_D=block == D, **how)
