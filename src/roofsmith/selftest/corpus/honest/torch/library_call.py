# honest: is one call of PyTorch with an out argument
# operator: softmax
import torch


def run_kernel(x, y, N, D):
    torch.softmax(x, dim=1, out=y)
