# operator: linear
# finds: W2 ._fp8
import torch


def run_kernel(x, w, out):
    if not hasattr(x, "_fp8"):
        x._fp8 = x.to(torch.float64)
    out.copy_(x._fp8 @ w.double())
