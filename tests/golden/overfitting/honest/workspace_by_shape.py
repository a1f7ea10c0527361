# operator: linear
# Memory is kept, what it holds isn't: it is written anew in every call.
import torch

_workspaces = {}


def _workspace(shape, dtype):
    key = (tuple(shape), dtype)
    if key not in _workspaces:
        _workspaces[key] = torch.empty(shape, dtype=dtype)
    return _workspaces[key]


def run_kernel(x, w, out):
    doubled = _workspace(x.shape, torch.float64)
    doubled.copy_(x)
    out.copy_(doubled @ w.double())
