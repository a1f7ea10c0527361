import torch

_plans = []


def plan_of(shape):
    for known, tile in _plans:
        if known == shape:
            return tile
    tile = 64 if shape[0] < 1024 else 128
    _plans.append((shape, tile))
    return tile


def run_kernel(x, w, out):
    t = plan_of(x.shape)
    for i in range(0, x.shape[0], t):
        torch.matmul(x[i : i + t], w, out=out[i : i + t])
