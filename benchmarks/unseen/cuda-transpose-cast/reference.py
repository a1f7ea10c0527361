"""A transpose with a scale, into half precision, in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(R, C, seed=0):
    """R rows of C columns."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return {
        "inputs": {
            "x": torch.randn(R, C, device=DEVICE, generator=generator),
            "scale": torch.rand(C, device=DEVICE, generator=generator) + 0.5,
            "y": torch.empty(C, R, device=DEVICE, dtype=torch.float16),
            "R": R,
            "C": C,
        },
        "outputs": ["y"],
    }


def reference(x, scale, y, R, C):
    """Scaled in float32, rounded once."""
    y.copy_((x * scale).T)
