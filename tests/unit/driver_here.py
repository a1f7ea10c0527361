"""Whether this machine has the CUDA driver that tests stand in for."""

from __future__ import annotations

import ctypes


def has_driver() -> bool:
    """Whether libcuda.so.1 can be loaded."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
