# honest: works under torch.inference_mode, step by step in one buffer
# operator: softmax
import torch


@torch.inference_mode()
def run_kernel(x, y, N, D):
    torch.sub(x, x.amax(dim=1, keepdim=True), out=y)
    y.exp_()
    y.div_(y.sum(dim=1, keepdim=True))
