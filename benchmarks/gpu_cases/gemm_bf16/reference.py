"""Matrix product in PyTorch: what the kernel must compute, and what it costs."""

import torch


def reference(A, B, C, M, N, K):
    """C = A B, in the tensors' own precision."""
    torch.matmul(A, B, out=C)


def flops(M, N, K):
    """A multiply and an add for every term."""
    return 2 * M * N * K


def bytes(M, N, K):
    """A and B read once, C written once, bfloat16."""
    return 2 * (M * K + K * N + M * N)
