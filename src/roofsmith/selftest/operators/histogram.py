# operator: how often each of B values occurs among N integers in [0, B)
# workloads: N=400000,B=256; N=100003,B=77
"""Histogram in NumPy."""

import numpy as np


def setup(N, B, seed=0):
    """Uniform values."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, B, N, dtype=np.int32)
    return {
        "inputs": {"x": x, "counts": np.empty(B, np.int32), "N": N, "B": B},
        "outputs": ["counts"],
    }


def reference(x, counts, N, B):
    """Exact counts."""
    counts[:] = np.bincount(x, minlength=B)


def flops(N, B):
    """One addition per value."""
    return N


def bytes(N, B):
    """Values once, counts once."""
    return 4 * (N + B)
