"""Multi-head attention: N tokens of width d, split into h heads of d / h columns each.

One program per token and head; it reads the keys three times, a few at a time.
"""

import math

import triton
import triton.language as tl

KEYS = 16


@triton.jit
def attention_row(Q, K, V, output, N, d, scale, KEYS: tl.constexpr, WIDTH: tl.constexpr):
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    query = tl.load(Q + tl.program_id(0) * d + columns) * scale

    largest = -float("inf")
    for start in range(0, N, KEYS):
        rows = start + tl.arange(0, KEYS)
        inside = rows < N
        keys = tl.load(K + rows[:, None] * d + columns[None, :], mask=inside[:, None], other=0.0)
        scores = tl.where(inside, tl.sum(keys * query[None, :], axis=1), -float("inf"))
        largest = tl.maximum(largest, tl.max(scores, axis=0))

    total = 0.0
    for start in range(0, N, KEYS):
        rows = start + tl.arange(0, KEYS)
        inside = rows < N
        keys = tl.load(K + rows[:, None] * d + columns[None, :], mask=inside[:, None], other=0.0)
        scores = tl.where(inside, tl.sum(keys * query[None, :], axis=1), -float("inf"))
        total += tl.sum(tl.exp(scores - largest), axis=0)

    mixed = tl.zeros((WIDTH,), dtype=tl.float32)
    for start in range(0, N, KEYS):
        rows = start + tl.arange(0, KEYS)
        inside = rows < N
        keys = tl.load(K + rows[:, None] * d + columns[None, :], mask=inside[:, None], other=0.0)
        values = tl.load(V + rows[:, None] * d + columns[None, :], mask=inside[:, None], other=0.0)
        scores = tl.where(inside, tl.sum(keys * query[None, :], axis=1), -float("inf"))
        weights = tl.exp(scores - largest) / total
        mixed += tl.sum(weights[:, None] * values, axis=0)
    tl.store(output + tl.program_id(0) * d + columns, mixed)


def run_kernel(Q, K, V, output, N, d, h):
    """Launch the kernel once; it fills `output`. A head's width is a power of two."""
    width = d // h
    attention_row[(N, h)](Q, K, V, output, N, d, 1 / math.sqrt(width), KEYS=KEYS, WIDTH=width)
