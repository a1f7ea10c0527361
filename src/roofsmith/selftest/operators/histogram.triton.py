"""How often each of B values occurs among N integers in [0, B): atomics in global memory."""

import triton
import triton.language as tl


@triton.jit
def count(x, counts, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < N
    values = tl.load(x + at, mask=inside, other=0)
    tl.atomic_add(counts + values, 1, mask=inside)


def run_kernel(x, counts, N, B):
    counts.zero_()
    count[(triton.cdiv(N, 1024),)](x, counts, N, BLOCK=1024)
