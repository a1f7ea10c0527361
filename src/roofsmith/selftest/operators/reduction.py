# operator: the sum of every row of an N x D matrix
# workloads: N=64,D=8192; N=37,D=4099
"""Row sums in NumPy."""

import numpy as np


def setup(N, D, seed=0):
    """Standard normal rows."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((N, D), dtype=np.float32)
    return {
        "inputs": {"x": x, "y": np.empty(N, np.float32), "N": N, "D": D},
        "outputs": ["y"],
    }


def reference(x, y, N, D):
    """The sum over the last axis."""
    np.sum(x, axis=1, out=y)


def flops(N, D):
    """One addition per element."""
    return N * D


def bytes(N, D):
    """Read once; a sum per row."""
    return 4 * (N * D + N)
