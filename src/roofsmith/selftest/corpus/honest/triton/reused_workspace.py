# honest: keeps one workspace per shape, which every call writes before it reads
# operator: reduction
import torch
import triton
import triton.language as tl

PARTS = 4
workspaces = {}


@triton.jit
def sum_parts(x, parts, D, SHARE, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = tl.arange(0, BLOCK)
    at = part * SHARE + columns
    inside = (columns < SHARE) & (at < D)
    values = tl.load(x + row * D + at, mask=inside, other=0.0)
    tl.store(parts + row * PARTS + part, tl.sum(values, axis=0))


@triton.jit
def add_parts(parts, y, PARTS: tl.constexpr):
    row = tl.program_id(0)
    tl.store(y + row, tl.sum(tl.load(parts + row * PARTS + tl.arange(0, PARTS)), axis=0))


def run_kernel(x, y, N, D):
    if N not in workspaces:
        workspaces[N] = torch.empty(N * PARTS, device=x.device, dtype=x.dtype)
    share = triton.cdiv(D, PARTS)
    block = triton.next_power_of_2(share)
    sum_parts[(N, PARTS)](x, workspaces[N], D, share, BLOCK=block, PARTS=PARTS)
    add_parts[(N,)](workspaces[N], y, PARTS=PARTS)
