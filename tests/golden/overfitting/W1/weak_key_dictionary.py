# operator: none
# finds: W1 _by_weight unversioned
import weakref

import torch

_by_weight = weakref.WeakKeyDictionary()


def run_kernel(x, w, out):
    try:
        packed = _by_weight[w]
    except KeyError:
        packed = w.contiguous().clone()
        _by_weight[w] = packed
    torch.matmul(x, packed, out=out)
