# finds: W2 _last, W2 _q
import torch

_q = torch.empty(16, 32)
_last = None


def run_kernel(x, w, out):
    global _last
    _q[:1].copy_(x[:1])
    if _last is not x:
        _q.copy_(x)
        _last = x
    out.copy_(_q @ w)
