"""A linear layer with GELU in PyTorch."""

import torch
from torch.nn.functional import gelu

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(M, N, K, seed=0):
    """M rows of K features become N features each."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    half = {"device": DEVICE, "dtype": torch.float16}
    return {
        "inputs": {
            "x": torch.randn(M, K, generator=generator, **half),
            "w": torch.randn(K, N, generator=generator, **half) / K**0.5,
            "b": torch.randn(N, generator=generator, **half),
            "y": torch.empty(M, N, **half),
            "M": M,
            "N": N,
            "K": K,
        },
        "outputs": ["y"],
        "weights": ["w", "b"],
    }


def reference(x, w, b, y, M, N, K):
    """In the tensors' own precision."""
    y.copy_(gelu(torch.addmm(b, x, w), approximate="tanh"))


def flops(M, N, K):
    """A multiply and an add for every term; some ten operations per output."""
    return 2 * M * N * K + 10 * M * N


def bytes(M, N, K):
    """x, w and b read once, y written once, float16."""
    return 2 * (M * K + K * N + N + M * N)
