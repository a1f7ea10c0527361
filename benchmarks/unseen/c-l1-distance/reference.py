"""Pairwise Manhattan distance in NumPy."""

import numpy as np


def setup(N, M, D, seed=0):
    """N and M points of D coordinates."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "A": rng.standard_normal((N, D), dtype=np.float32),
            "B": rng.standard_normal((M, D), dtype=np.float32),
            "distances": np.empty((N, M), dtype=np.float32),
            "N": N,
            "M": M,
            "D": D,
        },
        "outputs": ["distances"],
    }


def reference(A, B, distances, N, M, D):
    """A coordinate at a time."""
    across = np.ascontiguousarray(B.T)
    distances[...] = 0
    apart = np.empty_like(distances)
    for k in range(D):
        np.subtract(A[:, k, None], across[k], out=apart)
        distances += np.abs(apart, out=apart)


def flops(N, M, D):
    """A difference, a size and a sum for every coordinate of every pair."""
    return 3 * N * M * D
