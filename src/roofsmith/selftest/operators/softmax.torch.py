"""Softmax of every row of an N x D matrix, step by step."""

import torch


def run_kernel(x, y, N, D):
    weights = torch.exp(x - x.amax(dim=1, keepdim=True))
    torch.div(weights, weights.sum(dim=1, keepdim=True), out=y)
