"""Group normalisation in NumPy."""

import numpy as np


def setup(N, G, P, S, seed=0):
    """N images of G groups of P channels of S points each."""
    rng = np.random.default_rng(seed)
    C = G * P
    return {
        "inputs": {
            "x": rng.standard_normal((N, C, S), dtype=np.float32),
            "weight": rng.standard_normal(C, dtype=np.float32),
            "bias": rng.standard_normal(C, dtype=np.float32),
            "y": np.empty((N, C, S), dtype=np.float32),
            "N": N,
            "C": C,
            "S": S,
            "G": G,
        },
        "outputs": ["y"],
    }


def reference(x, weight, bias, y, N, C, S, G):
    """Mean and variance over a group's channels and points; epsilon is 1e-5."""
    groups = x.reshape(N, G, -1)
    centred = groups - groups.mean(axis=2, keepdims=True)
    variance = (centred * centred).mean(axis=2, keepdims=True)
    normal = (centred / np.sqrt(variance + 1e-5)).reshape(N, C, S)
    y[...] = weight[None, :, None] * normal + bias[None, :, None]
