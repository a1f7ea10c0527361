"""Arrays as messages between the parent and a reference's process have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from roofsmith.domain.arrays import ArraySpec


def as_json(arrays: Iterable[ArraySpec]) -> list[dict[str, Any]]:
    """Arrays, for a message."""
    return [
        {"name": a.name, "role": a.role, "dtype": a.dtype, "shape": list(a.shape)} for a in arrays
    ]


def from_json(arrays: Sequence[dict[str, Any]]) -> list[ArraySpec]:
    """The arrays of a message."""
    return [ArraySpec(a["name"], a["role"], a["dtype"], tuple(a["shape"])) for a in arrays]
