"""Attention of one head in float16, block by block; probabilities in float32."""

import triton
import triton.language as tl


@triton.jit
def attend(q, k, v, o, S, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    depth = tl.arange(0, D)
    inside = rows[:, None] < S
    mine = tl.load(q + rows[:, None] * D + depth[None, :], mask=inside, other=0.0)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    out = tl.zeros((BLOCK, D), tl.float32)
    for first in range(0, S, BLOCK):
        at = first + tl.arange(0, BLOCK)
        there = at[:, None] < S
        keys = tl.load(k + at[:, None] * D + depth[None, :], mask=there, other=0.0)
        values = tl.load(v + at[:, None] * D + depth[None, :], mask=there, other=0.0)
        scores = tl.dot(mine, tl.trans(keys)) * scale
        scores = tl.where(at[None, :] < S, scores, -float("inf"))
        new = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp(scores - new[:, None])
        shrink = tl.exp(largest - new)
        total = total * shrink + tl.sum(weights, axis=1)
        out = out * shrink[:, None] + tl.dot(weights, values.to(tl.float32), input_precision="ieee")
        largest = new
    result = (out / total[:, None]).to(tl.float16)
    tl.store(o + rows[:, None] * D + depth[None, :], result, mask=inside)


def run_kernel(q, k, v, o, S, D):
    attend[(triton.cdiv(S, 32),)](q, k, v, o, S, D**-0.5, D=D, BLOCK=32)
