"""GELU (the tanh form) of N elements, one operation after the other."""

import torch


def run_kernel(x, y, N):
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    torch.mul(0.5 * x, 1.0 + torch.tanh(inner), out=y)
