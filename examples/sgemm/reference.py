"""Single-precision matrix product in NumPy: what the kernel must compute, and what it costs."""

import numpy as np


def setup(M, N, K, seed=0):
    """Inputs in the kernel's argument order; `C` is filled by the kernel."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "A": rng.standard_normal((M, K), dtype=np.float32),
            "B": rng.standard_normal((K, N), dtype=np.float32),
            "C": np.empty((M, N), dtype=np.float32),
            "M": M,
            "N": N,
            "K": K,
        },
        "outputs": ["C"],
    }


def reference(A, B, C, M, N, K):
    """C = A B, in the arrays' own precision."""
    np.matmul(A, B, out=C)


def flops(M, N, K):
    """A multiply and an add for every term."""
    return 2 * M * N * K


def bytes(M, N, K):
    """A and B read once, C written once, float32."""
    return 4 * (M * K + K * N + M * N)
