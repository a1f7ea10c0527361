# operator: linear
# finds: W1 _packed unversioned
import torch

_packed = {}


def run_kernel(x, w, out):
    key = (w.data_ptr(), tuple(w.shape))
    if key not in _packed:
        _packed[key] = w.clone()
    torch.matmul(x, _packed[key], out=out)
