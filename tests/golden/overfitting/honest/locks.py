import torch

_locks = {}


def run_kernel(x, w, out):
    key = x.device
    if key not in _locks:
        _locks[key] = torch.zeros(1024, dtype=torch.int32, device=x.device)
    locks = _locks[key]
    locks.zero_()
    torch.matmul(x, w, out=out)
