"""Good kernels for pairwise L1 distance."""

import torch


def torch_cdist(A, B, distances, N, M, D):
    """PyTorch's own, which is vectorised and threaded."""
    return torch.cdist(A, B, p=1.0)


def torch_broadcast(A, B, distances, N, M, D):
    """As somebody writes it who compiles it."""
    return (A[:, None, :] - B[None, :, :]).abs().sum(-1)


WAYS = (torch_cdist, torch_broadcast)
