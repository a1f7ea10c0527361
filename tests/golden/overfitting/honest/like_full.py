import torch

_minus = {}


def run_kernel(x, out):
    if x.shape not in _minus:
        _minus[x.shape] = torch.full_like(x, float("-inf"))
    out.copy_(torch.maximum(x, _minus[x.shape]))
