"""Good kernels for group norm."""

from torch.nn.functional import group_norm


def eager(x, gamma, beta, y, N, C, H, W, G, eps):
    """PyTorch's own."""
    return group_norm(x, G, gamma, beta, eps)


WAYS = (eager,)
