# operator: linear
import time

import torch

_best = {}


def _rows(x, w, out, rows):
    for begin in range(0, x.shape[0], rows):
        torch.matmul(x[begin : begin + rows], w, out=out[begin : begin + rows])


def _seconds(x, w, out, rows):
    begin = time.perf_counter()
    _rows(x, w, out, rows)
    return time.perf_counter() - begin


def run_kernel(x, w, out):
    key = (x.shape[0], x.shape[1], w.shape[1], x.dtype)
    if key not in _best:
        _best[key] = min((8, 16, 32), key=lambda rows: _seconds(x, w, out, rows))
    _rows(x, w, out, _best[key])
