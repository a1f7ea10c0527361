import torch


def f(pair, options, *, scale=1.0, bias=None):
    a, b = pair
    y = (a.unsqueeze(1) * b).sum(-1) * scale
    if options["mask"] is not None:
        y = y.masked_fill(options["mask"], 0.0)
    return {"y": y, "parts": (y.max(), y.sum(0))}


def get_inputs():
    return {
        "pair": (torch.randn(12, 8), torch.randn(12, 9, 8)),
        "options": {"mask": torch.rand(12, 9) < 0.3},
        "scale": 0.5,
    }
