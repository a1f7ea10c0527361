"""Good kernels for a linear layer with SiLU."""

from torch.nn.functional import linear, silu


def eager(x, w, b, y, M, N, K):
    """cuBLAS, then SiLU."""
    return silu(linear(x, w, b))


WAYS = (eager,)
