# operator: C = A B in float32
# workloads: M=128,N=128,K=128; M=61,N=83,K=97
"""Matrix product in NumPy."""

import numpy as np


def setup(M, N, K, seed=0):
    """Standard normal matrices."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "A": rng.standard_normal((M, K), dtype=np.float32),
            "B": rng.standard_normal((K, N), dtype=np.float32),
            "C": np.empty((M, N), np.float32),
            "M": M,
            "N": N,
            "K": K,
        },
        "outputs": ["C"],
    }


def reference(A, B, C, M, N, K):
    """One product."""
    np.matmul(A, B, out=C)


def flops(M, N, K):
    """Multiply and add."""
    return 2 * M * N * K


def bytes(M, N, K):
    """Every matrix once."""
    return 4 * (M * K + K * N + M * N)
