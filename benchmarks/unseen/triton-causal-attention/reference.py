"""Causal attention in PyTorch."""

import torch
from torch.nn.functional import scaled_dot_product_attention

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(H, N, D, seed=0):
    """H heads (of all sequences) of N tokens of width D."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    half = {"device": DEVICE, "dtype": torch.float16}
    q, k, v = (torch.randn(H, N, D, generator=generator, **half) for _ in range(3))
    return {
        "inputs": {"q": q, "k": k, "v": v, "o": torch.empty_like(q), "H": H, "N": N, "D": D},
        "outputs": ["o"],
    }


def reference(q, k, v, o, H, N, D):
    """In the tensors' own precision."""
    o.copy_(scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0])


def flops(H, N, D):
    """Two products over the pairs that the mask leaves."""
    return 2 * H * N * (N + 1) * D


def bytes(H, N, D):
    """q, k and v read once, o written once, float16."""
    return 2 * 4 * H * N * D
