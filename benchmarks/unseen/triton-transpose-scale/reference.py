"""A scaled transpose in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(M, N, seed=0):
    """An M x N matrix, and what it is scaled by."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return {
        "inputs": {
            "x": torch.randn(M, N, device=DEVICE, generator=generator),
            "y": torch.empty(N, M, device=DEVICE),
            "s": 0.125,
            "M": M,
            "N": N,
        },
        "outputs": ["y"],
    }


def reference(x, y, s, M, N):
    """In the tensors' own precision."""
    torch.mul(x.T, s, out=y)


def flops(M, N):
    """A product for every element."""
    return M * N


def bytes(M, N):
    """Every float32 read once and written once."""
    return 2 * 4 * M * N
