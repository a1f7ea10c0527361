"""Bilinear resize in NumPy."""

import numpy as np


def setup(C, H, W, OH, OW, seed=0):
    """C planes of H x W, to become OH x OW."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "image": rng.random((C, H, W), dtype=np.float32),
            "resized": np.empty((C, OH, OW), dtype=np.float32),
            "C": C,
            "H": H,
            "W": W,
            "OH": OH,
            "OW": OW,
        },
        "outputs": ["resized"],
    }


def reference(image, resized, C, H, W, OH, OW):
    """Along each axis by its two neighbours; what lies outside is the border."""
    y0, y1, dy = _neighbours(H, OH, image.dtype)
    x0, x1, dx = _neighbours(W, OW, image.dtype)
    rows = image.take(y0, axis=1) * (1 - dy)[:, None]
    rows += image.take(y1, axis=1) * dy[:, None]
    np.multiply(rows.take(x0, axis=2), 1 - dx, out=resized)
    resized += rows.take(x1, axis=2) * dx


def _neighbours(size, wanted, dtype):
    at = (np.arange(wanted, dtype=dtype) + dtype.type(0.5)) * dtype.type(size)
    at = np.maximum(at / dtype.type(wanted) - dtype.type(0.5), dtype.type(0))
    low = np.floor(at).astype(np.int64)
    return np.minimum(low, size - 1), np.minimum(low + 1, size - 1), at - low.astype(dtype)
