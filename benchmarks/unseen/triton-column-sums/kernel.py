"""The sum of every column: one program per column, which walks down it."""

import triton
import triton.language as tl


@triton.jit
def column_sum(x, sums, N, D, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    total = 0.0
    for start in range(0, N, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x + rows * D + column, mask=rows < N, other=0.0), axis=0)
    tl.store(sums + column, total)


def run_kernel(x, sums, N, D):
    column_sum[(D,)](x, sums, N, D, BLOCK=256)
