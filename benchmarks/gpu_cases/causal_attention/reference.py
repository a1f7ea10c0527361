"""Causal attention in PyTorch, a batch at a time: in float64 its scores are large."""

import torch
from torch.nn.functional import scaled_dot_product_attention

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(B, H, S, D, seed=0):
    """Inputs by name; `output` is filled by the kernel."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    like = {"device": DEVICE, "dtype": torch.bfloat16}
    drawn = {name: torch.randn(B, H, S, D, generator=generator, **like) for name in "QKV"}
    output = torch.empty(B, H, S, D, **like)
    inputs = {**drawn, "output": output, "B": B, "H": H, "S": S, "D": D}
    return {"inputs": inputs, "outputs": ["output"]}


def reference(Q, K, V, output, B, H, S, D):
    """Softmax(Q K^T / sqrt(D)) V, where no token sees a later one."""
    for i in range(B):
        batch = (t[i : i + 1] for t in (Q, K, V))
        output[i : i + 1] = scaled_dot_product_attention(*batch, is_causal=True)


def flops(B, H, S, D):
    """Two products of 2 S S D, half of which is masked."""
    return 2 * B * H * S * S * D


def bytes(B, H, S, D):
    """Q, K and V read once, output written once, bfloat16."""
    return 4 * 2 * B * H * S * D
