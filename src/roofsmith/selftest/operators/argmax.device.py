# operator: where the first of the largest numbers of every row of an N x D matrix is
# workloads: N=4096,D=4096; N=1021,D=4099
"""Argmax in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, D, seed=0):
    """Standard normal rows."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    x = torch.randn(N, D, device=DEVICE, generator=generator)
    y = torch.empty(N, dtype=torch.int32, device=DEVICE)
    return {"inputs": {"x": x, "y": y, "N": N, "D": D}, "outputs": ["y"]}


def reference(x, y, N, D):
    """Of equal ones, the first."""
    y.copy_(torch.argmax(x, dim=1))


def flops(N, D):
    """One comparison per element."""
    return N * D


def bytes(N, D):
    """Read once; a place per row."""
    return 4 * (N * D + N)
