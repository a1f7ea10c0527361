# operator: the mean of very many positive numbers
# workloads: N=33554432
"""A mean in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, seed=0):
    """Uniform between 0 and 1: by the law of large numbers, their mean hardly depends on them."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    x = torch.rand(N, device=DEVICE, generator=generator)
    y = torch.empty(1, device=DEVICE)
    return {"inputs": {"x": x, "y": y, "N": N}, "outputs": ["y"]}


def reference(x, y, N):
    """Of all of them."""
    y.copy_(x.mean())


def flops(N):
    """One addition per element."""
    return N


def bytes(N):
    """Read once; a single number."""
    return 4 * (N + 1)
