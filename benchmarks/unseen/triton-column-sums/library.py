"""Good kernels for sums of columns."""

import torch


def eager(x, sums, N, D):
    """PyTorch's own."""
    return torch.sum(x, 0)


def product(x, sums, N, D):
    """cuBLAS: ones times the matrix."""
    return torch.mv(x.T, torch.ones(N, device=x.device))


WAYS = (eager, product)
