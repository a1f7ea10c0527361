# operator: the sum of every row of an N x D matrix
# workloads: N=4096,D=4096; N=1021,D=4099
"""Row sums in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, D, seed=0):
    """Standard normal rows."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    x = torch.randn(N, D, device=DEVICE, generator=generator)
    y = torch.empty(N, device=DEVICE)
    return {"inputs": {"x": x, "y": y, "N": N, "D": D}, "outputs": ["y"]}


def reference(x, y, N, D):
    """The sum over the last axis."""
    torch.sum(x, dim=1, out=y)


def flops(N, D):
    """One addition per element."""
    return N * D


def bytes(N, D):
    """Read once; a sum per row."""
    return 4 * (N * D + N)
