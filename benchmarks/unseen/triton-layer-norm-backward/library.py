"""Good kernels for layer normalisation's backward pass."""

import torch


def eager(x, w, dy, mean, rstd, dx, dw, db, N, D):
    """PyTorch's own."""
    backward = torch.ops.aten.native_layer_norm_backward
    wanted = [True, True, True]
    return backward(dy, x, [D], mean[:, None], rstd[:, None], w, w, wanted)


WAYS = (eager,)
