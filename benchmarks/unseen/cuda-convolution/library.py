"""Good kernels for a 3 x 3 convolution in float32."""

import torch
from torch.nn.functional import conv2d

torch.backends.cudnn.allow_tf32 = False


def eager(x, w, bias, y, N, C, H, W, K, S):
    """PyTorch's own."""
    return torch.relu(conv2d(x, w, bias, stride=S, padding=1))


def channels_last(x, w, bias, y, N, C, H, W, K, S):
    """Channels innermost while it computes; changing the order counts."""
    x, w = (each.to(memory_format=torch.channels_last) for each in (x, w))
    return torch.relu(conv2d(x, w, bias, stride=S, padding=1)).contiguous()


WAYS = (eager, channels_last)
