"""Multi-head attention in PyTorch as two products, which may be computed in TF32."""

import math

import torch

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
    q, k, v = (t.view(N, h, d // h).transpose(0, 1) for t in (Q, K, V))
    weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(d // h), -1)
    output.view(N, h, d // h).copy_((weights @ v).transpose(0, 1))


def flops(N, d, h):
    """Two products of 2 N N d, and five operations for every one of the h N N scores."""
    return 4 * N * N * d + 5 * N * N * h


def bytes(N, d, h):
    """Q, K and V read once, output written once, float32."""
    return 4 * 4 * N * d
