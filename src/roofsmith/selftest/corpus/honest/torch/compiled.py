# honest: is compiled by torch.compile in its first call
# operator: elementwise
import torch


@torch.compile
def gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def run_kernel(x, y, N):
    y.copy_(gelu(x))
