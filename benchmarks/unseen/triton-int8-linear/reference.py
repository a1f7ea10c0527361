"""A linear layer with int8 weights in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(M, N, K, seed=0):
    """M rows of float16 against N rows of int8, which have a scale each."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    w = torch.randint(-127, 128, (N, K), device=DEVICE, generator=generator, dtype=torch.int8)
    scale = 2.7e-4 * (0.5 + torch.rand(N, device=DEVICE, generator=generator))
    return {
        "inputs": {
            "x": torch.randn(M, K, device=DEVICE, generator=generator).half(),
            "w": w,
            "scale": scale.half(),
            "y": torch.empty(M, N, dtype=torch.float16, device=DEVICE),
            "M": M,
            "N": N,
            "K": K,
        },
        "outputs": ["y"],
        "weights": ["w", "scale"],
    }


def reference(x, w, scale, y, M, N, K):
    """Weights and products in x's precision."""
    y.copy_(x @ (w.to(x.dtype) * scale[:, None]).T)


def flops(M, N, K):
    """The product."""
    return 2 * M * N * K


def bytes(M, N, K):
    """int8 weights; float16 rows, scales and results."""
    return N * K + 2 * (M * K + N + M * N)
