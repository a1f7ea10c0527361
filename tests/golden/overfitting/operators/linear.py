"""out = x @ w: x is new on every call, w is a model's weight."""

import torch


def setup(M, K, N, seed):
    generator = torch.Generator().manual_seed(seed)
    return {
        "inputs": {
            "x": torch.randn(M, K, generator=generator),
            "w": torch.randn(K, N, generator=generator),
            "out": torch.empty(M, N),
        },
        "outputs": ["out"],
        "weights": ["w"],
    }


def reference(x, w, out):
    out.copy_(x @ w)
