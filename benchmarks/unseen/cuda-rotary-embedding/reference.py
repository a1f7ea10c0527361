"""Rotary position embedding with a scale in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(B, T, H, J, seed=0):
    """B x T tokens of H heads with J pairs each; sequences begin anywhere in the tables."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    frequencies = 10000.0 ** -(torch.arange(J, device=DEVICE) / J)
    angles = torch.arange(2 * T, device=DEVICE)[:, None] * frequencies
    first = torch.randint(0, T + 1, (B, 1), device=DEVICE, generator=generator)
    positions = first + torch.arange(T, device=DEVICE)
    return {
        "inputs": {
            "x": torch.randn(B, T, H, 2 * J, device=DEVICE, generator=generator).half(),
            "positions": positions.to(torch.int32),
            "cos_table": torch.cos(angles),
            "sin_table": torch.sin(angles),
            "y": torch.empty(B, T, H, 2 * J, dtype=torch.float16, device=DEVICE),
            "B": B,
            "T": T,
            "H": H,
            "J": J,
            "scale": 0.7071,
        },
        "outputs": ["y"],
    }


def reference(x, positions, cos_table, sin_table, y, B, T, H, J, scale):
    """Products in the tables' precision, as they promote x."""
    at = positions.long()
    cos, sin = cos_table[at][:, :, None], sin_table[at][:, :, None]
    a, b = x[..., :J], x[..., J:]
    y[..., :J] = (a * cos - b * sin) * scale
    y[..., J:] = (b * cos + a * sin) * scale


def flops(B, T, H, J):
    """Four products, two sums and two scalings for each pair."""
    return 8 * B * T * H * J


def bytes(B, T, H, J):
    """float16 in and out, positions, and T rows at least of each table."""
    return 8 * B * T * H * J + 4 * B * T + 8 * T * J
