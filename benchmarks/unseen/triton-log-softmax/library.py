"""Good kernels for log-softmax."""

import torch


def eager(x, y, N, D):
    """PyTorch's own."""
    return torch.log_softmax(x, 1)


WAYS = (eager,)
