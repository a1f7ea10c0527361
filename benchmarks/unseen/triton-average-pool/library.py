"""Good kernels for average pooling."""

from torch.nn.functional import avg_pool2d


def eager(x, y, P, H, W, OH, OW, K, S):
    """PyTorch's own."""
    return avg_pool2d(x[None], K, S)[0]


WAYS = (eager,)
