"""Good kernels for a linear layer with GELU."""

import torch
from torch.nn.functional import gelu


def eager(x, w, b, y, M, N, K):
    """cuBLAS, then PyTorch's GELU."""
    return gelu(torch.addmm(b, x, w), approximate="tanh")


def epilogue(x, w, b, y, M, N, K):
    """GELU in cuBLASLt's epilogue."""
    return torch._addmm_activation(b, x, w, use_gelu=True)


WAYS = (eager, epilogue)
