# operator: C = A B in float32
# workloads: M=1024,N=1024,K=1024; M=1021,N=523,K=767
"""Matrix product in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(M, N, K, seed=0):
    """Normal matrices, scaled as weights are, so that C is about 1."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    A = torch.randn(M, K, device=DEVICE, generator=generator)
    B = torch.randn(K, N, device=DEVICE, generator=generator) / K**0.5
    C = torch.empty(M, N, device=DEVICE)
    return {"inputs": {"A": A, "B": B, "C": C, "M": M, "N": N, "K": K}, "outputs": ["C"]}


def reference(A, B, C, M, N, K):
    """One product."""
    torch.matmul(A, B, out=C)


def flops(M, N, K):
    """Multiply and add."""
    return 2 * M * N * K


def bytes(M, N, K):
    """Every matrix once."""
    return 4 * (M * K + K * N + M * N)
