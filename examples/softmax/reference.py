"""Row softmax in NumPy: what the kernel must compute, and what it costs."""

import numpy as np


def setup(N, D, seed=0):
    """Inputs in the kernel's argument order; `output` is filled by the kernel."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "input": rng.standard_normal((N, D), dtype=np.float32),
            "output": np.empty((N, D), dtype=np.float32),
            "N": N,
            "D": D,
        },
        "outputs": ["output"],
    }


def reference(input, output, N, D):
    """Softmax over the last axis, in the arrays' own precision."""
    shifted = input - input.max(axis=1, keepdims=True)
    np.exp(shifted, out=output)
    output /= output.sum(axis=1, keepdims=True)


def flops(N, D):
    """Compare, subtract, exp, add and divide for every element; exp counts as one."""
    return 5 * N * D


def bytes(N, D):
    """Every float32 read once and written once."""
    return 2 * 4 * N * D
