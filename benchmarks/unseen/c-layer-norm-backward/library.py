"""Good kernels for layer normalisation's backward pass."""

import torch

from unseen_native import native


def torch_backward(x, weight, dout, dx, dweight, dbias, N, C):
    """PyTorch's own, with the statistics of a forward pass before it."""
    _, mean, inverse = torch.native_layer_norm(x, [C], weight, weight, 1e-5)
    wanted = [True, True, True]
    backward = torch.ops.aten.native_layer_norm_backward
    return backward(dout, x, [C], mean, inverse, weight, weight, wanted)


WAYS = (torch_backward, native(__file__, ("dx", "dweight", "dbias")))
EAGER_ONLY = ("own_c",)
