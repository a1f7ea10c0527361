"""Good kernels for cumulative sums."""

import torch


def eager(x, y, N, D):
    """PyTorch's own."""
    return torch.cumsum(x, 1)


WAYS = (eager,)
