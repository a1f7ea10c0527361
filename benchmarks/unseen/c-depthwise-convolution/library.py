"""Good kernels for a depthwise convolution."""

from torch.nn.functional import conv2d


def torch_conv2d(input, filters, output, N, C, H, W, K):
    """PyTorch's own, by oneDNN; an even filter makes a row and a column too many."""
    return conv2d(input, filters[:, None], padding=K // 2, groups=C)[:, :, :H, :W]


WAYS = (torch_conv2d,)
