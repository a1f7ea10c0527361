"""Cumulative sum along columns in NumPy."""

import numpy as np


def setup(R, C, seed=0):
    """R rows of C columns, in double precision."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "a": rng.standard_normal((R, C)),
            "sums": np.empty((R, C)),
            "rows": R,
            "columns": C,
        },
        "outputs": ["sums"],
    }


def reference(a, sums, rows, columns):
    """Down the rows."""
    np.cumsum(a, axis=0, out=sums)
