# honest: sums in float64, more exact than anybody asks for
# operator: reduction
import torch


def run_kernel(x, y, N, D):
    y.copy_(torch.sum(x, dim=1, dtype=torch.float64))
