# operator: linear
import torch

_table = None
_streams = {}


def _order(n):
    global _table
    if _table is None or _table.numel() < n:
        _table = torch.arange(n)
    return _table[:n]


def run_kernel(x, w, out):
    rows = _order(x.shape[0])
    out.copy_(x[rows] @ w)
