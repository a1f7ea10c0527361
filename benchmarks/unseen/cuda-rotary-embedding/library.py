"""Good kernels for a rotary position embedding."""

import torch


def halves(x, positions, cos_table, sin_table, y, B, T, H, J, scale):
    """Each half computed, then put together."""
    cos, sin = cos_table[positions][:, :, None] * scale, sin_table[positions][:, :, None] * scale
    a, b = x[..., :J], x[..., J:]
    return torch.cat(((a * cos - b * sin).half(), (b * cos + a * sin).half()), dim=-1)


def rotate_half(x, positions, cos_table, sin_table, y, B, T, H, J, scale):
    """As model libraries write it."""
    cos = cos_table[positions].repeat(1, 1, 2)[:, :, None]
    sin = sin_table[positions].repeat(1, 1, 2)[:, :, None]
    turned = torch.cat((-x[..., J:], x[..., :J]), dim=-1)
    return ((x * cos + turned * sin) * scale).half()


WAYS = (halves, rotate_half)
