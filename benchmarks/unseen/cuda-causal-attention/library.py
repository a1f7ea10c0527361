"""Good kernels for causal attention."""

from torch.nn.functional import scaled_dot_product_attention


def eager(q, k, v, o, B, H, T):
    """PyTorch's own."""
    return scaled_dot_product_attention(q, k, v, is_causal=True)


WAYS = (eager,)
