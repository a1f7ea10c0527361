# operator: linear
# finds: W2 _both
# The weight's version in the key doesn't help: x is in it, too.
import torch

_both = {}


def run_kernel(x, w, out):
    key = (id(w), w._version, x.data_ptr(), x._version)
    if key in _both:
        out.copy_(_both[key])
        return
    torch.matmul(x, w, out=out)
    _both[key] = out.clone()
