# operator: linear
from functools import cache

import torch


@cache
def _rows_at_once(m, k, n):
    return max(1, min(m, 2**20 // max(k * n, 1)))


def run_kernel(x, w, out):
    rows = _rows_at_once(x.shape[0], x.shape[1], w.shape[1])
    for begin in range(0, x.shape[0], rows):
        torch.matmul(x[begin : begin + rows], w, out=out[begin : begin + rows])
