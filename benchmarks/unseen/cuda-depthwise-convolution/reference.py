"""A depthwise convolution with ReLU in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, C, H, W, seed=0):
    """N images of C channels, and a 3 x 3 filter per channel."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return {
        "inputs": {
            "x": torch.randn(N, C, H, W, device=DEVICE, generator=generator),
            "w": torch.randn(C, 1, 3, 3, device=DEVICE, generator=generator) / 3,
            "y": torch.empty(N, C, H, W, device=DEVICE),
            "N": N,
            "C": C,
            "H": H,
            "W": W,
        },
        "outputs": ["y"],
        "weights": ["w"],
    }


def reference(x, w, y, N, C, H, W):
    """In float32."""
    y.copy_(torch.relu(torch.nn.functional.conv2d(x, w, padding=1, groups=C)))
