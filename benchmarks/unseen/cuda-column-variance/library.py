"""Good kernels for mean and variance of columns."""

import torch


def eager(x, mean, variance, R, C):
    """PyTorch's own, in one walk."""
    variance, mean = torch.var_mean(x, 0, correction=0)
    return mean, variance


WAYS = (eager,)
