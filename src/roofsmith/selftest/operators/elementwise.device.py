# operator: the GELU, in its tanh form, of N elements
# workloads: N=16777216; N=5000011
"""GELU in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, seed=0):
    """Normal values, twice as wide as the standard ones."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    x = 2 * torch.randn(N, device=DEVICE, generator=generator)
    return {"inputs": {"x": x, "y": torch.empty_like(x), "N": N}, "outputs": ["y"]}


def reference(x, y, N):
    """Hendrycks & Gimpel, Gaussian Error Linear Units, 2016."""
    y.copy_(0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x))))


def flops(N):
    """Eight operations and a tanh, which counts as one."""
    return 9 * N


def bytes(N):
    """Read once, written once."""
    return 8 * N
