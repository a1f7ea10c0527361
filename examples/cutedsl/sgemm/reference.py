"""Single-precision matrix product in PyTorch: what the kernel must compute, and what it costs."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(M, N, K, seed=0):
    """Inputs in the kernel's argument order; `C` is filled by the kernel."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return {
        "inputs": {
            "A": torch.randn(M, K, device=DEVICE, generator=generator),
            "B": torch.randn(K, N, device=DEVICE, generator=generator),
            "C": torch.empty(M, N, device=DEVICE),
            "M": M,
            "N": N,
            "K": K,
        },
        "outputs": ["C"],
    }


def reference(A, B, C, M, N, K):
    """C = A B, in the tensors' own precision."""
    torch.matmul(A, B, out=C)


def flops(M, N, K):
    """A multiply and an add for every term."""
    return 2 * M * N * K


def bytes(M, N, K):
    """A and B read once, C written once, float32."""
    return 4 * (M * K + K * N + M * N)
