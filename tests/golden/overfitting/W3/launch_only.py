# finds: W3 _q
import torch
import triton
import triton.language as tl

_q = None


@triton.jit
def twice(src, dst, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(dst + o, tl.load(src + o, mask=o < n) * 2, mask=o < n)


def run_kernel(x, out, n):
    global _q
    if _q is None:
        _q = torch.empty(n)
        twice[(1,)](x, _q, n, B=256)
    twice[(1,)](_q, out, n, B=256)
