"""A 3 x 3 convolution with bias and ReLU in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, C, H, W, K, S, seed=0):
    """N images of C channels, and K filters that go in steps of S."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    OH, OW = (H - 1) // S + 1, (W - 1) // S + 1
    return {
        "inputs": {
            "x": torch.randn(N, C, H, W, device=DEVICE, generator=generator),
            "w": torch.randn(K, C, 3, 3, device=DEVICE, generator=generator) / (9 * C) ** 0.5,
            "bias": torch.randn(K, device=DEVICE, generator=generator),
            "y": torch.empty(N, K, OH, OW, device=DEVICE),
            "N": N,
            "C": C,
            "H": H,
            "W": W,
            "K": K,
            "S": S,
        },
        "outputs": ["y"],
        "weights": ["w", "bias"],
    }


def reference(x, w, bias, y, N, C, H, W, K, S):
    """In the tensors' own precision."""
    y.copy_(torch.relu(torch.nn.functional.conv2d(x, w, bias, stride=S, padding=1)))
