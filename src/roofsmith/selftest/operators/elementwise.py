# operator: the GELU, in its tanh form, of N elements
# workloads: N=65536; N=10007
"""GELU in NumPy."""

import numpy as np


def setup(N, seed=0):
    """Normal values, twice as wide as the standard ones."""
    rng = np.random.default_rng(seed)
    x = 2 * rng.standard_normal(N, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty(N, np.float32), "N": N}, "outputs": ["y"]}


def reference(x, y, N):
    """Hendrycks & Gimpel, Gaussian Error Linear Units, 2016."""
    y[:] = 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def flops(N):
    """Eight operations and a tanh, which counts as one."""
    return 9 * N


def bytes(N):
    """Read once, written once."""
    return 8 * N
