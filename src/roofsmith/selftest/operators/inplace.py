# operator: x = 2 x + 1 for N elements, in place by contract
# workloads: N=65536; N=10007
"""Scale and shift in NumPy, in place."""

import numpy as np


def setup(N, seed=0):
    """Standard normal values, to be overwritten."""
    rng = np.random.default_rng(seed)
    return {"inputs": {"x": rng.standard_normal(N, dtype=np.float32), "N": N}, "outputs": ["x"]}


def reference(x, N):
    """In place."""
    x *= 2
    x += 1


def flops(N):
    """Multiply and add."""
    return 2 * N


def bytes(N):
    """Read once, written once."""
    return 8 * N
