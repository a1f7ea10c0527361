"""Reading and writing the memory of a process that is stopped.

What a worker copies itself, it sees before it is timed. Standard library only, like the workers
that are told to allow it. See process_vm_writev(2) and "Ptrace access mode checking" in ptrace(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from typing import Any

REACH = "memory access"

Move = Callable[[int, int, int, int], None]
"""`write_memory` or `read_memory`."""

_SET_DUMPABLE = 4
_MOST_BYTES = 2**30
"""Of one call: Linux moves no more than 2 GiB less a page at a time (rw in read(2))."""
_PROCESSOR = 36
"""Of the fields behind the name in /proc/<pid>/stat: where the process ran last, proc(5)."""


class _Range(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def stay_reachable() -> None:
    """Let the process that started this one read and write its memory.

    Whoever enters a user namespace is closed to all but root, as if it were a setuid program.
    """
    ctypes.CDLL(None).prctl(_SET_DUMPABLE, 1, 0, 0, 0)


def write_memory(pid: int, there: int, here: int, size_bytes: int) -> None:
    """Copy from this process's memory to another's.

    Raises:
        OSError: it isn't allowed, or not all of that memory is there.
    """
    _move(_libc().process_vm_writev, pid, there, here, size_bytes)


def read_memory(pid: int, there: int, here: int, size_bytes: int) -> None:
    """The same in the other direction."""
    _move(_libc().process_vm_readv, pid, there, here, size_bytes)


@contextlib.contextmanager
def beside(pid: int) -> Iterator[None]:
    """Run this thread on the processor that a stopped process ran on last.

    What is written from there lies in the caches, and in the memory, in which the process would
    have left it.
    """
    before = os.sched_getaffinity(0)
    with contextlib.suppress(OSError, IndexError, ValueError):
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        os.sched_setaffinity(0, {int(fields[_PROCESSOR])})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _move(call: Callable[..., Any], pid: int, there: int, here: int, size_bytes: int) -> None:
    done = 0
    while done < size_bytes:
        rest = min(size_bytes - done, _MOST_BYTES)
        own, other = _Range(here + done, rest), _Range(there + done, rest)
        moved = ctypes.c_ssize_t(
            call(
                ctypes.c_int(pid), ctypes.byref(own), ctypes.c_ulong(1), ctypes.byref(other),
                ctypes.c_ulong(1), ctypes.c_ulong(0),
            )
        ).value  # fmt: skip
        if moved <= 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        done += moved
