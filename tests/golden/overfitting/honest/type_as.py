import torch

_tables = {}


def run_kernel(x, out):
    key = (x.shape[-1], x.dtype, x.device)
    if key not in _tables:
        _tables[key] = torch.arange(x.shape[-1]).type_as(x).mul_(0.5).cos()
    out.copy_(x * _tables[key])
