"""Nearest codeword in NumPy.

Vectors are eighths, so that squared distances are exact in float32 in any order of their terms, and
the nearest codeword is one and the same for every right kernel.
"""

import numpy as np


def setup(N, K, D, seed=0):
    """N vectors, and K codewords of D numbers."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "vectors": rng.integers(-32, 33, (N, D)).astype(np.float32) / 8,
            "codebook": rng.integers(-32, 33, (K, D)).astype(np.float32) / 8,
            "codes": np.empty(N, dtype=np.int32),
            "N": N,
            "K": K,
            "D": D,
        },
        "outputs": ["codes"],
    }


def reference(vectors, codebook, codes, N, K, D):
    """By |x|^2 - 2 x c + |c|^2, without the first, which all codewords share."""
    scores = (codebook * codebook).sum(axis=1) - 2 * (vectors @ codebook.T)
    codes[:] = scores.argmin(axis=1)


def flops(N, K, D):
    """A multiply and an add for every term of the products."""
    return 2 * N * K * D
