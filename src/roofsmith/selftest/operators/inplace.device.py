# operator: x = 2 x + 1 for N elements, in place by contract
# workloads: N=16777216; N=5000011
"""Scale and shift in PyTorch, in place."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, seed=0):
    """Standard normal values, to be overwritten."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    x = torch.randn(N, device=DEVICE, generator=generator)
    return {"inputs": {"x": x, "N": N}, "outputs": ["x"]}


def reference(x, N):
    """In place."""
    x.mul_(2).add_(1)


def flops(N):
    """Multiply and add."""
    return 2 * N


def bytes(N):
    """Read once, written once."""
    return 8 * N
