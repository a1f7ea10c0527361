# operator: linear
# finds: W1 _quantize versioned
from functools import lru_cache

import torch


@lru_cache(maxsize=2)
def _quantize(weight, version):
    return weight.double().float()


def run_kernel(x, w, out):
    torch.matmul(x, _quantize(w, w._version), out=out)
