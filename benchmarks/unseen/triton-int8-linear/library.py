"""Good kernels for a linear layer with int8 weights."""

from torch.nn.functional import linear


def dequantised(x, w, scale, y, M, N, K):
    """The weights in float16 first."""
    return linear(x, w.half() * scale[:, None])


def scaled_rows(x, w, scale, y, M, N, K):
    """Scales taken behind the product, with a power of two in front so that float16 holds it."""
    return linear(x * 2**-6, w.half()) * (scale * 2**6)


WAYS = (dequantised, scaled_rows)
