"""Sum of every row of an N x D matrix, through a copy."""

import torch


def run_kernel(x, y, N, D):
    torch.sum(x.clone(), dim=1, out=y)
