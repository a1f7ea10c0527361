# operator: C = A B in bfloat16, C about 1e-3 as gradients are
# workloads: M=1024,N=1024,K=4096; M=1021,N=523,K=767
"""Matrix product in bfloat16, in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(M, N, K, seed=0):
    """Normal matrices; A as small as gradients."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    A = 1e-3 * torch.randn(M, K, device=DEVICE, generator=generator)
    B = torch.randn(K, N, device=DEVICE, generator=generator) / K**0.5
    C = torch.empty(M, N, device=DEVICE, dtype=torch.bfloat16)
    inputs = {"A": A.bfloat16(), "B": B.bfloat16(), "C": C, "M": M, "N": N, "K": K}
    return {"inputs": inputs, "outputs": ["C"]}


def reference(A, B, C, M, N, K):
    """One product."""
    torch.matmul(A, B, out=C)


def flops(M, N, K):
    """Multiply and add."""
    return 2 * M * N * K


def bytes(M, N, K):
    """Every matrix once."""
    return 2 * (M * K + K * N + M * N)
