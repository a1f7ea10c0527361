"""Good kernels for a linear layer with GELU."""

import torch
from torch.nn.functional import gelu


def torch_addmm(M, K, N, x, w, b, y):
    """A BLAS's product, then PyTorch's GELU."""
    return gelu(torch.addmm(b, x, w), approximate="tanh")


WAYS = (torch_addmm,)
