"""Jacobi sweeps in NumPy."""

import numpy as np


def setup(R, C, T, seed=0):
    """A grid of R x C points, and T sweeps over it."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "start": rng.standard_normal((R, C)),
            "f": rng.standard_normal((R, C)),
            "u": np.empty((R, C)),
            "next": np.empty((R, C)),
            "n": R,
            "m": C,
            "sweeps": T,
        },
        "outputs": ["u"],
        "scratch": ["next"],
    }


def reference(start, f, u, next, n, m, sweeps):
    """Every sweep reads only what the one before wrote."""
    u[...] = start
    for _ in range(sweeps):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] = (around - f[1:-1, 1:-1]) / 4


def flops(R, C, T):
    """Five operations for every point inside and sweep."""
    return 5 * (R - 2) * (C - 2) * T


def bytes(R, C, T):
    """Start and right side read once, the result written once."""
    return 3 * 8 * R * C
