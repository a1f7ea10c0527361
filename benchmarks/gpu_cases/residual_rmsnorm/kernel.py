"""Residual addition and RMSNorm, one operator of PyTorch after the other."""

import torch


def run_kernel(x, residual, weight, summed, output, N, D):
    """Fill `summed` and `output`."""
    total = x.float() + residual.float()
    summed.copy_(total)
    scale = torch.rsqrt(total.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
    output.copy_(total * scale * weight.float())
