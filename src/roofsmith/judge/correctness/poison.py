"""Bytes that no honest kernel leaves in an output or looks at beside an array.

Outputs begin as signalling NaN: loads and stores keep it as it is, arithmetic sets its quiet bit.
So what still holds it was not written, and what was computed from it is another NaN. Guard bands
hold one of several 16-bit words, another at every turn, so that a kernel which reads beyond its
arrays computes something else each time.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

UNWRITTEN: Mapping[str, int] = {
    "float16": 0x7D5A, "bfloat16": 0x7F9A, "float32": 0x7FA55AA5, "float64": 0x7FF55AA55AA55AA5,
    "int8": 0x5A, "uint8": 0x5A, "int16": 0x5AA5, "uint16": 0x5AA5, "int32": 0x5AA55AA5,
    "uint32": 0x5AA55AA5, "int64": 0x5AA55AA55AA55AA5, "uint64": 0x5AA55AA55AA55AA5,
    "bool": 0x5A,
}  # fmt: skip
"""Bits of an output that nobody has written, by element type: exponent all ones, quiet bit zero."""

NAN_GUARDS = (0x7FF9, 0x7FFB, 0xFFF9, 0xFFFB)
"""A quiet NaN in every floating type, however wide."""
HUGE_GUARDS = (0x7F7F, 0xFF7F)
"""Near the largest and the least number of float32 and bfloat16; NaN in float16, about 1e306 in
float64. A maximum ignores NaN, but not these."""
ZERO_GUARD = 0
"""What changes sums the least: shows, beside another guard, that a kernel has read one."""


def random_guard() -> int:
    """A guard that nobody can predict: NaN half of the time."""
    return secrets.choice(secrets.choice((NAN_GUARDS, HUGE_GUARDS)))


def unwritten(array: NDArray[np.generic], dtype: str) -> NDArray[np.bool_]:
    """Which elements still hold the poison of their type."""
    word = np.dtype(f"u{array.dtype.itemsize}")
    found: NDArray[np.bool_] = np.ascontiguousarray(array).view(word) == word.type(UNWRITTEN[dtype])
    return found


def poison(array: NDArray[np.generic], dtype: str) -> None:
    """Fill a contiguous array with the poison of its type."""
    word = np.dtype(f"u{array.dtype.itemsize}")
    array.reshape(-1).view(word).fill(UNWRITTEN[dtype])


def fill_guard(band: NDArray[np.uint8], start: int, word: int) -> None:
    """Fill a guard band that begins at byte `start` of its arena."""
    first = start % 2
    band[first::2], band[1 - first :: 2] = word & 0xFF, word >> 8


def is_whole(band: NDArray[np.uint8], start: int, word: int) -> bool:
    """Whether a guard band holds what it was filled with."""
    first = start % 2
    low, high = band[first::2], band[1 - first :: 2]
    return bool((low == word & 0xFF).all() and (high == word >> 8).all())
