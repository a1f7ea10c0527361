"""Whether a judgement of a workload has room in the machine's memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

COPIES = 8
"""How many times a workload's arrays lie in memory during a judgement: the reference's own, its
float64 ones (twice the size), the arena between, and two copies for either side."""
LARGE_BYTES = 256 * 1024**2
"""From here on it is worth a look before the reference runs at all."""


def require_room(drawn: Mapping[str, Any]) -> None:
    """See that the other copies of what was drawn have room, before the reference runs on it.

    Raises:
        MemoryError: they haven't.
    """
    size = sum(value.nbytes for value in drawn.values() if isinstance(value, np.ndarray))
    if size < LARGE_BYTES:
        return
    import psutil  # most references are described without

    needed, available = (COPIES - 1) * size, psutil.virtual_memory().available
    if needed > available:
        raise MemoryError(
            f"its arrays take {size / 1e9:.1f} GB, and {needed / 1e9:.1f} GB more for another"
            f" {COPIES - 1} copies are needed to be judged: {available / 1e9:.1f} GB are free"
        )
