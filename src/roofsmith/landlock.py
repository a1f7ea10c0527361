"""Landlock: which files a process may see, and which it may change; everything else it can't.

Standard library only, and little of that: workers and the supervisors of compilers, which both
start by the dozen, import it. See landlock(7) and the kernel's
Documentation/userspace-api/landlock.rst, where the numbers and structures are from.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct

LANDLOCK = "Landlock"
"""Its name among layers of walls."""
LEAST_VERSION = 3
"""The first that can forbid truncation, without which any file could be emptied."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL = (
    1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15,
)  # fmt: skip
_ACCESSES = {3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
"""What a version can forbid on files: every bit up to truncation, then ioctl on devices as well."""
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6
_TCP = 0b11
_ABSTRACT_SOCKETS, _SIGNALS = 0b01, 0b10

PROGRAMS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store",
    "/run/current-system/sw", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/alternatives", "/etc/localtime", "/etc/os-release",
)  # fmt: skip
"""Where a system has its programs and libraries. Not all of /etc: it holds secrets."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class NoLandlockError(Exception):
    """This kernel has no Landlock that is of use."""


def version() -> int:
    """Landlock's version here.

    Raises:
        NoLandlockError: there is none, it is switched off, or too old.
    """
    found = _call(_CREATE_RULESET, None, 0, _ASK_VERSION)
    if found < LEAST_VERSION:
        raise NoLandlockError(f"version {found}; {LEAST_VERSION} (Linux 6.2) is the least of use")
    return found


def allow_only(
    readable: tuple[str, ...],
    writable: tuple[str, ...],
    devices: tuple[str, ...] = DEVICES,
    *,
    tcp: bool = False,
    signals: bool = False,
    abstract_sockets: bool = False,
) -> None:
    """From now on this process and its children see nothing but these files; for good.

    Other processes' memory is out of reach as well, and so is what isn't allowed below where the
    version knows it. Open descriptors stay as they are. The kernel asks who isn't root to give up
    new privileges before.

    Args:
        readable: folders and files; those that don't exist are passed over.
        writable: folders in which everything is allowed.
        devices: files that may be read and written, or folders of such.
        tcp: allow connections.
        signals: allow those to processes that aren't so restricted.
        abstract_sockets: allow those of others.

    Raises:
        NoLandlockError: the kernel refuses.
    """
    known = version()
    everything = _ACCESSES[min(known, max(_ACCESSES))]
    attributes = [everything]
    if known >= _NETWORK_SINCE:
        attributes.append(0 if tcp else _TCP)
    if known >= _SCOPES_SINCE:
        attributes.append(
            (0 if signals else _SIGNALS) | (0 if abstract_sockets else _ABSTRACT_SOCKETS)
        )
    packed = struct.pack(f"{len(attributes)}Q", *attributes)
    ruleset = _call(_CREATE_RULESET, packed, len(packed), 0)
    try:
        for path in readable:
            _allow(ruleset, path, (_READ_FILE | _READ_DIR | _EXECUTE) & everything)
        for path in devices:
            _allow(ruleset, path, (_READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL) & everything)
        for path in writable:
            _allow(ruleset, path, everything)
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            access &= _EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, place), 0)
    finally:
        os.close(place)


_LIBC = ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: bytes | int | None) -> int:
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result: int = _LIBC.syscall(ctypes.c_long(number), *given)
    if result < 0:
        raise NoLandlockError(os.strerror(ctypes.get_errno()))
    return result
