"""Depthwise convolution in NumPy."""

import numpy as np


def setup(N, C, H, W, K, seed=0):
    """N images of C channels, and a K x K filter per channel."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "input": rng.standard_normal((N, C, H, W), dtype=np.float32),
            "filters": rng.standard_normal((C, K, K), dtype=np.float32),
            "output": np.empty((N, C, H, W), dtype=np.float32),
            "N": N,
            "C": C,
            "H": H,
            "W": W,
            "K": K,
        },
        "outputs": ["output"],
    }


def reference(input, filters, output, N, C, H, W, K):
    """One shifted image after the other, times its tap."""
    padded = np.zeros((N, C, H + K - 1, W + K - 1), dtype=input.dtype)
    pad = K // 2
    padded[:, :, pad : pad + H, pad : pad + W] = input
    output[...] = 0
    for k in range(K):
        for m in range(K):
            output += padded[:, :, k : k + H, m : m + W] * filters[None, :, k, m, None, None]


def flops(N, C, H, W, K):
    """A multiply and an add for every tap; those outside are counted, too."""
    return 2 * N * C * H * W * K * K
