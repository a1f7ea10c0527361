# honest: waits for the device before it returns
# operator: elementwise
import torch
import torch.nn.functional as F


def run_kernel(x, y, N):
    y.copy_(F.gelu(x, approximate="tanh"))
    if y.is_cuda:
        torch.cuda.synchronize()
