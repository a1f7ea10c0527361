"""Good kernels for layer normalisation's backward pass."""

import torch


def torch_backward(x, weight, dout, dx, dweight, dbias, N, C):
    """PyTorch's own, with statistics of one pass before it."""
    variance, mean = torch.var_mean(x, 1, correction=0, keepdim=True)
    inverse = torch.rsqrt(variance + 1e-5)
    wanted = [True, True, True]
    backward = torch.ops.aten.native_layer_norm_backward
    return backward(dout, x, [C], mean, inverse, weight, weight, wanted)


WAYS = (torch_backward,)
