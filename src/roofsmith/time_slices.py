"""For how long the scheduler lets a thread run before others have their turn: sched_setattr(2).

Who asks for shorter slices isn't given more of a processor, but is given it sooner when woken:
EEVDF runs the earliest deadline, which is the nearer the shorter the slice is (since Linux 6.12).
Where a kernel doesn't know that, nothing changes.

Standard library only, like the workers that use it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator

_SET_ATTRIBUTES = {"x86_64": 314, "aarch64": 274}
"""Number of the system call: Linux' syscall_64.tbl, and include/uapi/asm-generic/unistd.h."""
_SHARED = (os.SCHED_OTHER, os.SCHED_BATCH) if hasattr(os, "SCHED_OTHER") else ()
"""Policies that have slices."""


def ask_for_slices(slice_s: float) -> None:
    """Of the calling thread, and of those that it starts from now on.

    Args:
        slice_s: from 0.1 ms to 100 ms; 0: the system's own.
    """
    number = _SET_ATTRIBUTES.get(os.uname().machine)
    if number is None or (policy := os.sched_getscheduler(0)) not in _SHARED:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    # struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period
    wanted = struct.pack("=IIQiIQQQ", 48, policy, 0, nice, 0, round(slice_s * 1e9), 0, 0)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).syscall(number, 0, wanted, 0)


@contextlib.contextmanager
def short_slices(slice_s: float) -> Iterator[None]:
    """Of the calling thread, as long as the block lasts."""
    ask_for_slices(slice_s)
    try:
        yield
    finally:
        ask_for_slices(0.0)
