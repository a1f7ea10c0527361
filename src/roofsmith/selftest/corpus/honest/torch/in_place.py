# honest: overwrites its only tensor, as the contract says
# operator: inplace
import torch


def run_kernel(x, N):
    torch.add(1.0, x, alpha=2.0, out=x)
