"""Whether a reference writes its outputs: they hold nothing when it is called."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def unwritten(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[np.generic]:
    """An output that holds nothing yet."""
    fill = np.nan if np.issubdtype(dtype, np.floating) else 0
    return np.full(shape, fill, dtype=dtype)


def why_unwritten(name: str, array: NDArray[np.generic]) -> str | None:
    """What to say of an output that a reference hasn't written, as far as numbers show that."""
    if not array.size or not np.issubdtype(array.dtype, np.floating) or not np.isnan(array).all():
        return None
    return (
        f"reference left all of output {name!r} unwritten, or NaN. An output holds nothing before"
        " the call, unless the reference reads it: what it should begin from (the C of A @ B + C),"
        " setup must give"
    )
