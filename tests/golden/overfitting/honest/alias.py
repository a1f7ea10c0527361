import torch


def run_kernel(x, w, out):
    if x.data_ptr() == out.data_ptr() or x is out:
        x = x.clone()
    torch.matmul(x, w, out=out)
