"""System calls that a worker does without: leaving its process group, touching other processes.

A worker is stopped while the other side runs and killed when it is done, with its whole process
group. A child that leaves the group would go on running: beside the incumbent's timed calls, and
for ever. Standard library only, like the worker that uses it. See seccomp(2) and the kernel's
Documentation/userspace-api/seccomp_filter.rst; the numbers are those of its system call tables.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
from dataclasses import dataclass

_SET_PARENT_DEATH_SIGNAL = 1
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_X32 = 0x40000000
"""Bit of the other numbering that an x86-64 kernel may also answer to."""


@dataclass(frozen=True, slots=True)
class _Calls:
    arch: int
    denied: tuple[int, ...]
    """setsid, setpgid, ptrace, process_vm_readv, process_vm_writev, setns, unshare, tkill,
    rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal, io_uring_setup."""
    own_process_only: tuple[int, ...]
    """kill, tgkill."""


_CALLS = {
    "x86_64": _Calls(
        0xC000003E, (112, 109, 101, 310, 311, 308, 272, 200, 129, 297, 424, 425), (62, 234)
    ),
    "aarch64": _Calls(
        0xC00000B7, (157, 154, 117, 270, 271, 268, 97, 130, 138, 240, 424, 425), (129, 131)
    ),
}


def deny_escape() -> None:
    """Refuse these calls, with EPERM, to this process and all that it starts, for good.

    Where the kernel has no such filter, or the machine is of another kind, it says so on stderr.
    """
    calls = _CALLS.get(platform.machine())
    if calls is None or not sys.platform.startswith("linux"):
        sys.stderr.write(f"no system call filter for {platform.machine()}\n")
        return
    program = _program(calls, os.getpid())
    instructions = ctypes.create_string_buffer(program, len(program))
    count = len(program) // 8
    header = struct.pack("HxxxxxxP", count, ctypes.addressof(instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    filtered = (
        libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        and libc.prctl(_SET_SECCOMP, _MODE_FILTER, header, 0, 0) == 0
    )
    if not filtered:
        sys.stderr.write(f"no system call filter: {os.strerror(ctypes.get_errno())}\n")


def die_with_parent() -> None:
    """Have the kernel kill this process when the parent ends, however it ends."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)


def _program(calls: _Calls, pid: int) -> bytes:
    """The filter in the kernel's classic BPF: loads, and jumps over the next instruction."""
    deny = _instruction(_RETURN, _ERRNO | errno.EPERM)
    allow = _instruction(_RETURN, _ALLOW)
    lines = [
        _instruction(_LOAD, _ARCH_AT),
        _instruction(_JUMP_EQUAL, calls.arch, then=1),
        deny,
        _instruction(_LOAD, _NUMBER_AT),
        _instruction(_JUMP_AT_LEAST, _X32, otherwise=1),
        deny,
    ]
    for number in calls.denied:
        lines += [_instruction(_JUMP_EQUAL, number, otherwise=1), deny]
    for number in calls.own_process_only:
        lines += [
            _instruction(_JUMP_EQUAL, number, otherwise=4),
            _instruction(_LOAD, _FIRST_ARGUMENT_AT),
            _instruction(_JUMP_EQUAL, pid, then=1),
            deny,
            allow,
        ]
    return b"".join([*lines, allow])


def _instruction(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """One `struct sock_filter`; `then` and `otherwise` are how many instructions to skip."""
    return struct.pack("HBBI", code, then, otherwise, value)
