"""Sums of columns in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, D, seed=0):
    """N rows of D columns."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return {
        "inputs": {
            "x": torch.randn(N, D, device=DEVICE, generator=generator),
            "sums": torch.empty(D, device=DEVICE),
            "N": N,
            "D": D,
        },
        "outputs": ["sums"],
    }


def reference(x, sums, N, D):
    """In the tensors' own precision."""
    torch.sum(x, 0, out=sums)


def flops(N, D):
    """An addition for every element."""
    return N * D


def bytes(N, D):
    """x read once, the sums written once, float32."""
    return 4 * (N * D + D)
