# operator: a row of numbers convolved with K taps, as far as all of them overlap it
# workloads: N=4096,K=128; N=4001,K=129
"""Convolution in NumPy."""

import numpy as np


def setup(N, K, seed=0):
    """Standard normal numbers and taps."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "x": rng.standard_normal(N + K - 1, dtype=np.float32),
            "w": rng.standard_normal(K, dtype=np.float32),
            "y": np.empty(N, np.float32),
            "N": N,
            "K": K,
        },
        "outputs": ["y"],
    }


def reference(x, w, y, N, K):
    """Every window's product with the taps."""
    np.matmul(np.lib.stride_tricks.sliding_window_view(x, K), w, out=y)


def flops(N, K):
    """Multiply and add."""
    return 2 * N * K


def bytes(N, K):
    """Both inputs and the output once."""
    return 4 * (2 * N + 2 * K - 1)
