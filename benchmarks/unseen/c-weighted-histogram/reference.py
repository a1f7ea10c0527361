"""Weighted histogram in NumPy."""

import numpy as np


def setup(N, B, seed=0):
    """N bins' numbers below B, of which lower ones are frequent, and weights."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "bins": (B * rng.random(N) ** 2).astype(np.int32),
            "weights": rng.random(N, dtype=np.float32),
            "histogram": np.empty(B, dtype=np.float32),
            "N": N,
            "B": B,
        },
        "outputs": ["histogram"],
    }


def reference(bins, weights, histogram, N, B):
    """One after the other, in the weights' precision."""
    histogram[:] = 0
    np.add.at(histogram, bins, weights)


def flops(N, B):
    """An addition for every weight."""
    return N


def bytes(N, B):
    """Bins' numbers and weights read once, sums written once."""
    return 8 * N + 4 * B
