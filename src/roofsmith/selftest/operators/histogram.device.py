# operator: how often each of B values occurs among N integers in [0, B)
# workloads: N=16777216,B=1024; N=5000011,B=77
"""Histogram in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, B, seed=0):
    """Uniform values."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    x = torch.randint(0, B, (N,), device=DEVICE, generator=generator, dtype=torch.int32)
    counts = torch.empty(B, device=DEVICE, dtype=torch.int32)
    return {"inputs": {"x": x, "counts": counts, "N": N, "B": B}, "outputs": ["counts"]}


def reference(x, counts, N, B):
    """Exact counts."""
    counts.copy_(torch.bincount(x, minlength=B))


def flops(N, B):
    """One addition per value."""
    return N


def bytes(N, B):
    """Values once, counts once."""
    return 4 * (N + B)
