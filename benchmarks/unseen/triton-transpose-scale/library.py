"""Good kernels for a scaled transpose."""

import torch


def eager(x, y, s, M, N):
    """PyTorch's own."""
    return torch.mul(x.T, s, out=y)


def contiguous(x, y, s, M, N):
    """By a copy; compiled, it is one tiled kernel."""
    return (x * s).T.contiguous()


WAYS = (eager, contiguous)
