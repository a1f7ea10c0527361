"""NumPy for `judge.correctness.distributions`."""

from __future__ import annotations

from typing import Any

import numpy as np

from roofsmith.analysis.tolerance import Errors, measure


class HostArithmetic:
    """Port `Arithmetic` on NumPy."""

    xp: Any = np

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)

    def is_floating(self, value: Any) -> bool:
        return isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.floating)

    def dtype(self, array: Any) -> str:
        return str(array.dtype)

    def wide(self, array: Any) -> Any:
        with np.errstate(invalid="ignore"):
            return array.astype(np.promote_types(array.dtype, np.float32))

    def double(self, array: Any) -> Any:
        """A copy of an array in float64; poison may be a signalling NaN."""
        with np.errstate(invalid="ignore"):
            return array.astype(np.float64)

    def like(self, array: Any, model: Any) -> Any:
        with np.errstate(over="ignore", under="ignore"):
            return np.ascontiguousarray(array, dtype=model.dtype)

    def uniform(self, model: Any) -> Any:
        return self._rng.random(model.shape, dtype=np.promote_types(model.dtype, np.float32))

    def errors(self, out: Any, truth: Any) -> Errors:
        return measure(out, truth)

    def reseed(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)


def differ(one: Any, other: Any) -> Any:
    """Which elements of two arrays aren't the same; a NaN equals itself."""
    return (one != other) & ((one == one) | (other == other))
