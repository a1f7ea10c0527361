import torch

_masks = {}


def _mask(n, like):
    if n not in _masks:
        _masks[n] = torch.ones(n, n).tril().to(like)
    return _masks[n]


def run_kernel(x, out):
    out.copy_(x @ _mask(x.shape[-1], x))
