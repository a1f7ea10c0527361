# operator: linear
import torch


def run_kernel(x, w, out):
    torch.matmul(x, w, out=out)
