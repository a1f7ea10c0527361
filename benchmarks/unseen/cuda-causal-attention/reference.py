"""Causal attention in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

D = 64


def setup(B, H, T, seed=0):
    """B x H heads of T tokens, 64 columns each."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    made = {name: torch.randn(B, H, T, D, device=DEVICE, generator=generator) for name in "qkv"}
    return {
        "inputs": {**made, "o": torch.empty(B, H, T, D, device=DEVICE), "B": B, "H": H, "T": T},
        "outputs": ["o"],
    }


def reference(q, k, v, o, B, H, T):
    """In float32, all scores at once."""
    scores = q @ k.transpose(2, 3) * 0.125
    later = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)
    o.copy_(torch.softmax(scores.masked_fill(later, float("-inf")), 3) @ v)


def flops(B, H, T):
    """Two products over half of all pairs."""
    return 2 * B * H * T * T * D
