"""What a process gives up for good, and when it ends: capabilities(7), prctl(2).

Standard library only, like the workers and keepers that use it.
"""

from __future__ import annotations

import ctypes
import signal
import struct
from collections.abc import Collection

_SET_PARENT_DEATH_SIGNAL, _SET_NO_NEW_PRIVS = 1, 38
_DROP_FROM_BOUNDING_SET, _AMBIENT, _AMBIENT_CLEAR_ALL = 24, 47, 4
_CAPABILITY_VERSION_3 = 0x20080522

OWN_FILES = (0, 1, 3, 4, 6, 7)
"""What root needs for files of its own: CAP_CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID, SETUID."""


def forbid_new_privileges() -> None:
    """No program that is started from here gains anything by being setuid."""
    ctypes.CDLL(None).prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def drop_capabilities(but: Collection[int] = ()) -> None:
    """Give up what root, in a namespace or outside, may do beyond other users.

    Args:
        but: those that are kept where they are there.
    """
    libc = ctypes.CDLL(None)
    for capability in range(64):  # beyond the last one, and where there is nothing to drop: refused
        if capability not in but:
            libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
    libc.prctl(_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    held = ctypes.create_string_buffer(24)
    libc.capget(header, held)
    kept = struct.unpack("6I", held.raw)[1] & sum(1 << capability for capability in but)
    libc.capset(header, struct.pack("6I", kept, kept, 0, 0, 0, 0))


def die_with_parent() -> None:
    """Have the kernel kill this process when the parent ends, however it ends."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
