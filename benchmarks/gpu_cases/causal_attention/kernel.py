"""Causal attention in bfloat16: a program per 16 queries, which reads 16 keys at a time."""

import math

import triton
import triton.language as tl

TILE = 16


@triton.jit
def attend(Q, K, V, output, S, scale, TILE: tl.constexpr, WIDTH: tl.constexpr):
    first = tl.program_id(1).to(tl.int64) * S * WIDTH
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.arange(0, WIDTH)
    at = first + rows[:, None] * WIDTH + columns[None, :]
    query = tl.load(Q + at, mask=rows[:, None] < S, other=0.0)
    largest = tl.full((TILE,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((TILE,), dtype=tl.float32)
    mixed = tl.zeros((TILE, WIDTH), dtype=tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * TILE, TILE):
        keys = start + tl.arange(0, TILE)
        there = first + keys[:, None] * WIDTH + columns[None, :]
        k = tl.load(K + there, mask=keys[:, None] < S, other=0.0)
        v = tl.load(V + there, mask=keys[:, None] < S, other=0.0)
        scores = tl.dot(query, tl.trans(k)) * scale
        scores = tl.where(rows[:, None] >= keys[None, :], scores, -float("inf"))
        new = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp(scores - new[:, None])
        kept = tl.exp(largest - new)
        total = total * kept + tl.sum(weights, axis=1)
        mixed = mixed * kept[:, None] + tl.dot(weights.to(tl.bfloat16), v)
        largest = new
    result = (mixed / total[:, None]).to(tl.bfloat16)
    tl.store(output + at, result, mask=rows[:, None] < S)


def run_kernel(Q, K, V, output, B, H, S, D):
    """Launch the kernel once; it fills `output`."""
    grid = (triton.cdiv(S, TILE), B * H)
    attend[grid](Q, K, V, output, S, 1 / math.sqrt(D), TILE=TILE, WIDTH=D)
