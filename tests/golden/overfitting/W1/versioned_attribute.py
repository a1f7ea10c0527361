# operator: linear
# finds: W1 ._packed versioned
import torch


def _packed(weight):
    kept = getattr(weight, "_packed", None)
    if kept is not None and kept[0] == weight._version:
        return kept[1]
    packed = weight.to(torch.float64).float().contiguous()
    weight._packed = (weight._version, packed)
    return packed


def run_kernel(x, w, out):
    torch.matmul(x, _packed(w), out=out)
