"""Keeps freed memory, for processes that make and drop arrays of megabytes all the time."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Of mallopt(3)."""
LARGEST_BYTES = 32 * 1024**2
"""Larger arrays still come from the system: glibc takes no larger threshold on 64-bit machines."""
KEPT_BYTES = 128 * 1024**2


def keep_freed_memory() -> None:
    """From now on this process gives arrays' memory back to the system only if it is much.

    glibc returns some megabytes at the top of its heap at once, and when they are needed again they
    are mapped and zeroed page by page, which costs more than a comparison itself. Where there is
    another C library, nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGEST_BYTES)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
