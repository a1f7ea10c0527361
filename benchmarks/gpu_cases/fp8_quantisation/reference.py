"""Quantisation of every row of bfloat16 to float8 (e4m3) with a scale of its own."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, D, seed=0):
    """Inputs by name; `q`, the bits of float8, and `scales` are filled by the kernel."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return {
        "inputs": {
            "x": torch.randn(N, D, generator=generator, device=DEVICE, dtype=torch.bfloat16),
            "q": torch.empty(N, D, device=DEVICE, dtype=torch.uint8),
            "scales": torch.empty(N, device=DEVICE),
            "N": N,
            "D": D,
        },
        "outputs": ["q", "scales"],
    }


def reference(x, q, scales, N, D):
    """Every row over its scale, which takes its largest element to 448."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = wide.abs().amax(dim=-1).clamp(min=1e-12) / 448
    scales.copy_(scale)
    quotients = (wide / scale[:, None]).clamp(-448, 448)
    q.copy_(quotients.to(torch.float8_e4m3fn).view(torch.uint8))


def flops(N, D):
    """A comparison, a quotient and its limits for every element."""
    return 4 * N * D


def bytes(N, D):
    """An array of bfloat16 read, one of bytes written; and the scales."""
    return 3 * N * D + 4 * N
