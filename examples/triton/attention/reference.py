"""Multi-head attention in PyTorch: what the kernel must compute, and what it costs."""

import torch
from torch.nn.functional import scaled_dot_product_attention

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, d, h, seed=0):
    """Inputs in the kernel's argument order; `output` is filled by the kernel."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return {
        "inputs": {
            "Q": torch.randn(N, d, device=DEVICE, generator=generator),
            "K": torch.randn(N, d, device=DEVICE, generator=generator),
            "V": torch.randn(N, d, device=DEVICE, generator=generator),
            "output": torch.empty(N, d, device=DEVICE),
            "N": N,
            "d": d,
            "h": h,
        },
        "outputs": ["output"],
    }


def reference(Q, K, V, output, N, d, h):
    """softmax(Q K^T / sqrt(d / h)) V for every head, in the tensors' own precision."""
    q, k, v = (t.view(1, N, h, d // h).transpose(1, 2) for t in (Q, K, V))
    heads = scaled_dot_product_attention(q, k, v)
    output.view(1, N, h, d // h).copy_(heads.transpose(1, 2))


def flops(N, d, h):
    """Two products of 2 N N d, and five operations for every one of the h N N scores."""
    return 4 * N * N * d + 5 * N * N * h


def bytes(N, d, h):
    """Q, K and V read once, output written once, float32."""
    return 4 * 4 * N * d
