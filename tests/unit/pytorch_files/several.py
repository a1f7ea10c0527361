import torch


def stats(x, y, alpha=0.5):
    z = x * alpha + y
    return z.t(), z.mean(dim=0), z.argmax(dim=1)


def get_inputs():
    return {"x": torch.randn(24, 40), "y": torch.randn(24, 40), "alpha": 0.25}
