# operator: C = A B in float16, C about 2e-3 as gradients are
# workloads: M=96,N=96,K=512; M=61,N=83,K=97
"""Matrix product in float16, in NumPy."""

import numpy as np


def setup(M, N, K, seed=0):
    """Normal matrices; A as small as gradients."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((M, K), dtype=np.float32) / 512
    B = rng.standard_normal((K, N), dtype=np.float32) / np.float32(K**0.5)
    C = np.empty((M, N), np.float16)
    inputs = {
        "A": A.astype(np.float16), "B": B.astype(np.float16), "C": C, "M": M, "N": N, "K": K
    }  # fmt: skip
    return {"inputs": inputs, "outputs": ["C"]}


def reference(A, B, C, M, N, K):
    """One product, added up in float32 at least."""
    wide = np.promote_types(A.dtype, np.float32)
    C[...] = (A.astype(wide) @ B.astype(wide)).astype(C.dtype)


def flops(M, N, K):
    """Multiply and add."""
    return 2 * M * N * K


def bytes(M, N, K):
    """Every matrix once."""
    return 2 * (M * K + K * N + M * N)
