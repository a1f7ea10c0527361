"""Good kernels for a depthwise convolution."""

import torch
from torch.nn.functional import conv2d


def eager(x, w, y, N, C, H, W):
    """PyTorch's own."""
    return torch.relu(conv2d(x, w, padding=1, groups=C))


WAYS = (eager,)
