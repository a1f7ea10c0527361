"""Keeps freed memory, for processes that make and drop arrays of megabytes all the time."""

from __future__ import annotations

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Of mallopt(3)."""
KEPT_SHARE, MOST_KEPT_BYTES = 1 / 16, 2**30
"""Of the machine's memory that is kept, and how much at most: a few arrays of 8 million numbers in
float64, and what a comparison makes of them. Chosen."""


def keep_freed_memory() -> None:
    """From now on this process gives arrays' memory back to the system only if it is much.

    glibc maps arrays of more than 32 MB anew each time, and returns some megabytes at the top of
    its heap at once. When memory is needed again, it is mapped and zeroed page by page, which costs
    more than a comparison itself. Where there is another C library, nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, min(int(KEPT_SHARE * memory_bytes), MOST_KEPT_BYTES))
