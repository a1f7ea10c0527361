"""A linear layer with SiLU in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(M, N, K, seed=0):
    """M rows of K features become N features each."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return {
        "inputs": {
            "x": torch.randn(M, K, device=DEVICE, generator=generator),
            "w": torch.randn(N, K, device=DEVICE, generator=generator) / K**0.5,
            "b": torch.randn(N, device=DEVICE, generator=generator),
            "y": torch.empty(M, N, device=DEVICE),
            "M": M,
            "N": N,
            "K": K,
        },
        "outputs": ["y"],
        "weights": ["w", "b"],
    }


def reference(x, w, b, y, M, N, K):
    """In float32."""
    z = x @ w.T + b
    y.copy_(z * torch.sigmoid(z))


def flops(M, N, K):
    """A multiply and an add for every term."""
    return 2 * M * N * K + 5 * M * N
