"""Matrix product with a bias and GELU (tanh) in NumPy."""

import numpy as np


def setup(M, K, N, seed=0):
    """M rows of K features become N features each."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "M": M,
            "K": K,
            "N": N,
            "x": rng.standard_normal((M, K), dtype=np.float32),
            "w": rng.standard_normal((K, N), dtype=np.float32) / np.float32(np.sqrt(K)),
            "b": rng.standard_normal(N, dtype=np.float32),
            "y": np.empty((M, N), dtype=np.float32),
        },
        "outputs": ["y"],
        "weights": ["w", "b"],
    }


def reference(M, K, N, x, w, b, y):
    """The product, then GELU in its tanh form."""
    linear = x @ w + b
    inner = 0.7978845608028654 * (linear + 0.044715 * linear * linear * linear)
    y[...] = 0.5 * linear * (1 + np.tanh(inner))


def flops(M, K, N):
    """A multiply and an add for every term; some ten operations per output."""
    return 2 * M * K * N + 10 * M * N
