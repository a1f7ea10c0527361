# honest: fills zeros with torch and counts with a kernel of its own
# operator: histogram
import torch
import triton
import triton.language as tl


@triton.jit
def count(x, copies, N, B, COPIES: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    inside = at < N
    values = tl.load(x + at, mask=inside, other=0)
    tl.atomic_add(copies + program % COPIES * B + values, 1, mask=inside)


def run_kernel(x, counts, N, B):
    copies = torch.zeros(8, B, device=x.device, dtype=counts.dtype)
    count[(triton.cdiv(N, 1024),)](x, copies, N, B, COPIES=8, BLOCK=1024)
    torch.sum(copies, dim=0, dtype=counts.dtype, out=counts)
