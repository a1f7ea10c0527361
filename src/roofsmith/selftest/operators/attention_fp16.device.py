# operator: attention of one head in float16, over S queries and keys of length D
# workloads: S=2048,D=64; S=1021,D=64
"""Scaled dot-product attention in float16, in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(S, D, seed=0):
    """Normal queries, keys and values; values small."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    q, k, v = (torch.randn(S, D, device=DEVICE, generator=generator).half() for _ in range(3))
    o = torch.empty(S, D, device=DEVICE, dtype=torch.float16)
    return {"inputs": {"q": q, "k": k, "v": v / 32, "o": o, "S": S, "D": D}, "outputs": ["o"]}


def reference(q, k, v, o, S, D):
    """One call of PyTorch."""
    whole = (x[None, None] for x in (q, k, v))
    o.copy_(torch.nn.functional.scaled_dot_product_attention(*whole)[0, 0])


def flops(S, D):
    """Two products, and five operations for every score."""
    return 4 * S * S * D + 5 * S * S


def bytes(S, D):
    """Queries, keys and values once, and the result."""
    return 2 * 4 * S * D
