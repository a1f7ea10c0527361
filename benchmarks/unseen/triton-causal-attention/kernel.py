"""Causal attention in half precision: one program per 16 queries of a head, keys 16 at a time."""

import triton
import triton.language as tl


@triton.jit
def attention_kernel(q, k, v, o, N, D, scale, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    base = tl.program_id(1) * N * D
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, WIDTH)
    inside = (rows[:, None] < N) & (cols[None, :] < D)
    at = base + rows[:, None] * D + cols[None, :]
    queries = tl.load(q + at, mask=inside, other=0.0)
    m = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    acc = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        j = start + tl.arange(0, BLOCK)
        mask = (j[:, None] < N) & (cols[None, :] < D)
        keys = tl.load(k + base + j[:, None] * D + cols[None, :], mask=mask, other=0.0)
        values = tl.load(v + base + j[:, None] * D + cols[None, :], mask=mask, other=0.0)
        scores = tl.dot(queries, tl.trans(keys)) * scale
        scores = tl.where(j[None, :] <= rows[:, None], scores, -float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        p = tl.exp(scores - m_new[:, None])
        alpha = tl.exp(m - m_new)
        total = total * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None] + tl.dot(p.to(tl.float16), values)
        m = m_new
    tl.store(o + at, (acc / total[:, None]).to(tl.float16), mask=inside)


def run_kernel(q, k, v, o, H, N, D):
    width = max(16, triton.next_power_of_2(D))
    attention_kernel[(triton.cdiv(N, 16), H)](q, k, v, o, N, D, D**-0.5, BLOCK=16, WIDTH=width)
