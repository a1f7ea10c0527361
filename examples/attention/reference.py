"""Multi-head attention in NumPy: what the kernel must compute, and what it costs."""

import numpy as np


def setup(N, d, h, seed=0):
    """Inputs in the kernel's argument order; `output` is filled by the kernel."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "Q": rng.standard_normal((N, d), dtype=np.float32),
            "K": rng.standard_normal((N, d), dtype=np.float32),
            "V": rng.standard_normal((N, d), dtype=np.float32),
            "output": np.empty((N, d), dtype=np.float32),
            "N": N,
            "d": d,
            "h": h,
        },
        "outputs": ["output"],
    }


def reference(Q, K, V, output, N, d, h):
    """softmax(Q K^T / sqrt(width)) V for every head, in the arrays' own precision."""
    width = d // h
    for head in range(h):
        columns = slice(head * width, (head + 1) * width)
        scores = Q[:, columns] @ K[:, columns].T / Q.dtype.type(np.sqrt(width))
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        output[:, columns] = weights @ V[:, columns]


def flops(N, d, h):
    """Two products of 2 N N d, and five operations for every one of the h N N scores."""
    return 4 * N * N * d + 5 * N * N * h


def bytes(N, d, h):
    """Q, K and V read once, output written once, float32."""
    return 4 * 4 * N * d
