import torch

_blocks = 0
_part = torch.empty(64, 24)


def run_kernel(x, w, out):
    global _blocks
    if not _blocks:
        _blocks = 4
    b = 0
    while b < _blocks:
        _part[b] = x[b] @ w
        b += 1
    torch.matmul(x, w, out=out)
