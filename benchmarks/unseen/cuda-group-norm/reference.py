"""Group norm in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, C, H, W, G, seed=0):
    """N images of C channels in G groups."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return {
        "inputs": {
            "x": torch.randn(N, C, H, W, device=DEVICE, generator=generator),
            "gamma": torch.rand(C, device=DEVICE, generator=generator) + 0.5,
            "beta": torch.randn(C, device=DEVICE, generator=generator),
            "y": torch.empty(N, C, H, W, device=DEVICE),
            "N": N,
            "C": C,
            "H": H,
            "W": W,
            "G": G,
            "eps": 1e-5,
        },
        "outputs": ["y"],
        "weights": ["gamma", "beta"],
    }


def reference(x, gamma, beta, y, N, C, H, W, G, eps):
    """In float32."""
    y.copy_(torch.nn.functional.group_norm(x, G, gamma, beta, eps))
