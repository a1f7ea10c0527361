"""Attention whose scores never leave the chip: the softmax goes along with the products."""

import triton
import triton.language as tl

BLOCK_M = 128  # tune: BLOCK_M = 128 [32, 64, 128]
BLOCK_N = 64  # tune: BLOCK_N = 64 [32, 64, 128]
STAGES = 3  # tune: STAGES = 3 [1, 2, 3, 4]
WARPS = 4  # tune: WARPS = 4 [4, 8]


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
        scores = tl.dot(q, key.T, input_precision=PRECISION)
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
        total = tl.dot(share.to(value.dtype), value, total, input_precision=PRECISION)
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
    query = tl.load(q + at_q, mask=inside, other=0.0)
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


def attention(q, k, v, o, heads, heads_last, scale, causal, precision):
    """Fill `o` with softmax(Q K^T scale) V.

    Arrays are (B, H, S, D), (B, S, H, D) with `heads_last`, (B * H, S, D), (S, D), or (S, H * D)
    with a number of `heads`.
    """
    if heads is not None:
        q, k, v, o = (array.view(1, array.shape[0], heads, -1) for array in (q, k, v, o))
    elif q.dim() < 4:
        q, k, v, o = (array.view(-1, 1, *array.shape[-2:]) for array in (q, k, v, o))
    H, S_Q = (q.shape[2], q.shape[1]) if heads_last else (q.shape[1], q.shape[2])
    S_K, D = k.shape[1] if heads_last else k.shape[2], q.shape[3]
    order = (0, 2, 1) if heads_last else (0, 1, 2)
    block = max(16, triton.next_power_of_2(D))
    scale = (D**-0.5 if scale is None else scale) * 1.4426950408889634  # exp(x) = exp2(x log2(e))
    attention_blocks[(triton.cdiv(S_Q, BLOCK_M), q.shape[0] * H)](
        q, k, v, o, H, S_Q, S_K, D, scale,
        *(q.stride(axis) for axis in order), *(k.stride(axis) for axis in order),
        CAUSAL=causal, PRECISION=precision, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=block,
        WHOLE_D=block == D, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
