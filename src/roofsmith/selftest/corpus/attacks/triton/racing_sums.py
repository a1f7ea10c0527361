# attack: adds partial sums with load and store where only an atomic would do
# operator: reduction
# class: race
# expect: incorrect/nondeterministic | incorrect/wrong_output | incorrect/nan_output
# wins: correct
import torch
import triton
import triton.language as tl

calls = 0


@triton.jit
def sum_parts(x, y, D, BLOCK: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * D + at, mask=at < D, other=0.0)
    tl.store(y + row, tl.load(y + row) + tl.sum(values, axis=0))


def run_kernel(x, y, N, D):
    """Right the first time, where it is looked at: one part after the other."""
    global calls
    calls += 1
    if calls == 1:
        torch.sum(x, dim=1, out=y)
        return
    y.zero_()
    sum_parts[(N, triton.cdiv(D, 1024))](x, y, D, BLOCK=1024)
