# operator: the L rows of an L x D matrix, and rows of zeros behind them up to N
# workloads: N=4096,L=64,D=1024; N=1021,L=77,D=509
"""Padding with zeros in NumPy."""

import numpy as np


def setup(N, L, D, seed=0):
    """Standard normal rows."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((L, D), dtype=np.float32)
    return {
        "inputs": {"x": x, "y": np.empty((N, D), np.float32), "N": N, "L": L, "D": D},
        "outputs": ["y"],
    }


def reference(x, y, N, L, D):
    """The rows that are there, then zeros."""
    y[:L] = x
    y[L:] = 0


def flops(N, L, D):
    """Nothing is computed; a copy counts one for every element."""
    return L * D


def bytes(N, L, D):
    """Rows read once, all of them written once."""
    return 4 * (L * D + N * D)
