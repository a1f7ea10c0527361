"""RMS norm of a sum in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, D, seed=0):
    """N rows of D features."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return {
        "inputs": {
            "x": torch.randn(N, D, device=DEVICE, generator=generator),
            "r": torch.randn(N, D, device=DEVICE, generator=generator),
            "w": torch.rand(D, device=DEVICE, generator=generator) + 0.5,
            "s": torch.empty(N, D, device=DEVICE),
            "y": torch.empty(N, D, device=DEVICE),
            "N": N,
            "D": D,
            "eps": 1e-6,
        },
        "outputs": ["s", "y"],
        "weights": ["w"],
    }


def reference(x, r, w, s, y, N, D, eps):
    """In the tensors' own precision."""
    s.copy_(x + r)
    y.copy_(s * torch.rsqrt(s.pow(2).mean(1, keepdim=True) + eps) * w)
