"""Good kernels for an RMS norm of a sum."""

from torch.nn.functional import rms_norm


def eager(x, r, w, s, y, N, D, eps):
    """PyTorch's own norm."""
    total = x + r
    return total, rms_norm(total, (D,), w, eps)


WAYS = (eager,)
