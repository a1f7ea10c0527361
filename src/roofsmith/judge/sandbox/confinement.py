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
import struct
import sys
from collections.abc import Iterable, Sequence

from roofsmith.privileges import forbid_new_privileges

_SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE = 1, 4
_SET_SECCOMP, _MODE_FILTER = 22, 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT = 0, 4, 16, 24
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_IF_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_X32 = 0x40000000
"""Bit of the other numbering that an x86-64 kernel may also answer to."""
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_THREAD = 0x00010000
_NEW_NAMESPACES = 0x7E020000
"""`CLONE_THREAD`; all of `CLONE_NEW*` (sched.h)."""
_SOCKETS = (1, 16)
"""`AF_UNIX` and `AF_NETLINK`: what a GPU's driver talks to itself with."""

# Number on x86-64, number on aarch64; None where there is no such call.
_DENIED: tuple[tuple[int | None, int | None], ...] = (
    (112, 157),  # setsid
    (101, 117), (310, 270), (311, 271), (312, 272),  # ptrace, process_vm_*, kcmp
    (434, 434), (438, 438), (424, 424), (440, 440),  # pidfd_open, _getfd, _send_signal, madvise
    (200, 130), (129, 138), (297, 240),  # tkill, rt_sigqueueinfo, rt_tgsigqueueinfo
    (308, 268), (272, 97),  # setns, unshare
    (165, 40), (166, 39), (155, 41), (161, 51),  # mount, umount2, pivot_root, chroot
    (428, 428), (429, 429), (430, 430), (431, 431), (432, 432), (433, 433), (442, 442),  # mounts
    (467, 467),  # open_tree_attr: likewise
    (425, 425), (426, 426), (427, 427),  # io_uring_setup, _enter, _register
    (298, 241), (321, 280), (323, 282),  # perf_event_open, bpf, userfaultfd
    (248, 217), (249, 218), (250, 219),  # add_key, request_key, keyctl
    (303, 264), (304, 265),  # name_to_handle_at, open_by_handle_at
    (64, 190), (29, 194), (68, 186), (240, 180),  # semget, shmget, msgget, mq_open
    (256, 238), (279, 239),  # migrate_pages, move_pages
    (162, 81), (306, 267), (447, 447),  # sync, syncfs, memfd_secret: felt by the whole machine
    (222, 107),  # timer_create: its signal may be SIGCONT, which wakes a process that was stopped
)  # fmt: skip
_DENIED_TO_LIBRARIES: tuple[tuple[int | None, int | None], ...] = (
    (57, None), (58, None), (59, 221), (322, 281),  # fork, vfork, execve, execveat
    (90, None), (91, 52), (268, 53), (452, 452),  # chmod, fchmod, fchmodat, fchmodat2
    (92, None), (93, 55), (94, None), (260, 54),  # chown, fchown, lchown, fchownat
    (132, None), (235, None), (261, None), (280, 88),  # utime, utimes, futimesat, utimensat
    (188, 5), (189, 6), (190, 7), (197, 14), (198, 15), (199, 16),  # setxattr, removexattr
    (463, 463), (466, 466), (469, 469),  # setxattrat, removexattrat, file_setattr
)  # fmt: skip
_IOCTL = (16, 29)
_FILE_SETTINGS = (0x40086602, 0x40046602, 0x401C5820, 0x40087602, 0x40806685, 0x800C6613)
"""`FS_IOC_SETFLAGS` and its form of 32 bits, `FS_IOC_FSSETXATTR`, `FS_IOC_SETVERSION`,
`FS_IOC_ENABLE_VERITY`, `FS_IOC_SET_ENCRYPTION_POLICY`: to read a file is enough for them."""
_SET_GROUP = ((109, 154),)
"""setpgid. Builders such as ninja start each command in a group of its own, and give up where they
can't: they are told that they did, and it stays in its group."""
_DENIED_ON_HOST = ((283, 85),)
"""timerfd_create: timers run out while their process is stopped, and interrupt what runs then.
Thousands of them multiply the other side's time, and no process is charged or waits for that."""
_FCNTL, _SET_SIGNAL = (72, 25), 10
"""`F_SETSIG`: a descriptor's signal may be SIGCONT, too."""
_CLOSE, _CLOSE_RANGE, _DUP2, _DUP3 = (3, 57), (436, 436), (33, None), (292, 24)
_SET_AFFINITY = ((203, 122),)
"""sched_setaffinity."""
_OWN_PROCESS_ONLY = ((62, 129), (234, 131))
"""kill, tgkill."""
_OWN_OR_ZERO = ((302, 261),)
"""prlimit64: zero is oneself as well."""
_PRCTL, _SOCKET, _CLONE, _CLONE3 = (157, 167), (41, 198), (56, 220), (435, 435)


class NoFilterError(Exception):
    """This kernel or machine has no system call filter."""


def deny_escape(*, library: bool, sockets: bool) -> None:
    """Refuse these calls, with EPERM, to this process and all that it starts, for good.

    Args:
        library: also what code in a library does without, but Python and a compiler need: starting
            processes, changing files' modes and owners, times and attributes.
        sockets: allow local sockets and netlink; no others in any case.

    Raises:
        NoFilterError: the kernel has no such filter, or the machine is of another kind.
    """
    _install(_escapes(_column(), os.getpid(), library, _SOCKETS if sockets else ()))


def keep_open(fd: int) -> None:
    """Refuse to close a descriptor, or to put another in its place, for good.

    Raises:
        NoFilterError: as of `deny_escape`.
    """
    column = _column()
    lines = [
        *_not_with(_CLOSE[column], _FIRST_ARGUMENT_AT, (fd,)),
        _instruction(_JUMP_EQUAL, _CLOSE_RANGE[column], otherwise=1), _fail(errno.ENOSYS),
    ]  # fmt: skip
    for number in _numbers((_DUP2, _DUP3), column):
        lines += _not_with(number, _SECOND_ARGUMENT_AT, (fd,))
    _install(lines)


def keep_on_processor() -> None:
    """Leave all threads on the only processor that they have, for good.

    Runtimes that bind their threads give up where they can't: they are told that they did.

    Raises:
        NoFilterError: as of `deny_escape`.
    """
    column = _column()
    lines = [
        line
        for number in _numbers(_SET_AFFINITY, column)
        for line in (_instruction(_JUMP_EQUAL, number, otherwise=1), _fail(0))
    ]
    _install(lines)


def _column() -> int:
    """Of this machine, in the tables."""
    machine = os.uname().machine
    if machine not in _ARCHITECTURES or not sys.platform.startswith("linux"):
        raise NoFilterError(f"no system call filter for {machine}")
    return list(_ARCHITECTURES).index(machine)


def _numbers(calls: Iterable[tuple[int | None, int | None]], column: int) -> list[int]:
    """Of those calls that this machine has."""
    return [number for call in calls if (number := call[column]) is not None]


def _install(lines: Sequence[bytes]) -> None:
    """Put a filter on this process, beside those that it has, in the kernel's classic BPF."""
    program = b"".join([*_preamble(_column()), *lines, _ALLOWED])
    instructions = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    forbid_new_privileges()
    if libc.prctl(_SET_SECCOMP, _MODE_FILTER, header, 0, 0) != 0:
        raise NoFilterError(f"seccomp: {os.strerror(ctypes.get_errno())}")


def _preamble(column: int) -> list[bytes]:
    """Loads a call's number, in the one numbering that filters here are made for."""
    return [
        _instruction(_LOAD, _ARCH_AT),
        _instruction(_JUMP_EQUAL, list(_ARCHITECTURES.values())[column], then=1),
        _fail(errno.EPERM),
        _instruction(_LOAD, _NUMBER_AT),
        _instruction(_JUMP_AT_LEAST, _X32, otherwise=1),
        _fail(errno.EPERM),
    ]


def _escapes(column: int, pid: int, library: bool, sockets: Sequence[int]) -> list[bytes]:
    """The filter of `deny_escape`: loads, and jumps over what doesn't apply."""
    lines: list[bytes] = []
    on_host = library and not sockets  # a GPU's driver may need what nothing else does
    denied = [
        *_DENIED,
        *(_DENIED_TO_LIBRARIES if library else ()),
        *(_DENIED_ON_HOST if on_host else ()),
    ]
    for number in _numbers(_SET_GROUP, column):
        answer = _fail(errno.EPERM if library else 0)
        lines += [_instruction(_JUMP_EQUAL, number, otherwise=1), answer]
    for number in _numbers(denied, column):
        lines += [_instruction(_JUMP_EQUAL, number, otherwise=1), _fail(errno.EPERM)]
    for number in _numbers(_OWN_PROCESS_ONLY, column):
        lines += _only_with(number, (pid,))
    for number in _numbers(_OWN_OR_ZERO, column):
        lines += _only_with(number, (0, pid))
    calls = (_PRCTL, _SOCKET, _CLONE, _CLONE3, _FCNTL, _IOCTL)
    prctl, socket, clone, clone3, fcntl, ioctl = (call[column] for call in calls)
    kept = (_SET_PARENT_DEATH_SIGNAL, *((_SET_DUMPABLE,) if on_host else ()))
    lines += _not_with(prctl, _FIRST_ARGUMENT_AT, kept)
    lines += _not_with(fcntl, _SECOND_ARGUMENT_AT, (_SET_SIGNAL,))
    lines += _not_with(ioctl, _SECOND_ARGUMENT_AT, _FILE_SETTINGS)
    lines += _only_with(socket, sockets)
    return [*lines, *_clones(clone, clone3, library)]


def _only_with(number: int, values: Sequence[int]) -> list[bytes]:
    """Allow a call only if its first argument is one of these."""
    checks = [
        _instruction(_JUMP_EQUAL, value, then=len(values) - i) for i, value in enumerate(values)
    ]
    body = [_instruction(_LOAD, _FIRST_ARGUMENT_AT), *checks, _fail(errno.EPERM), _ALLOWED]
    return [_instruction(_JUMP_EQUAL, number, otherwise=len(body)), *body]


def _not_with(number: int, argument_at: int, values: Sequence[int]) -> list[bytes]:
    """Allow a call unless an argument is one of these."""
    body = [_instruction(_LOAD, argument_at)]
    for value in values:
        body += [_instruction(_JUMP_EQUAL, value, otherwise=1), _fail(errno.EPERM)]
    body.append(_ALLOWED)
    return [_instruction(_JUMP_EQUAL, number, otherwise=len(body)), *body]


def _clones(clone: int, clone3: int, library: bool) -> list[bytes]:
    """Threads, and processes unless it is a library; never namespaces.

    What clone3 is to do lies in memory, where no filter can look: it "doesn't exist", upon which
    the C library uses clone.
    """
    threads_only = [_instruction(_JUMP_IF_BITS, _THREAD, then=1), _fail(errno.EPERM)]
    body = [
        _instruction(_LOAD, _FIRST_ARGUMENT_AT),
        _instruction(_JUMP_IF_BITS, _NEW_NAMESPACES, otherwise=1), _fail(errno.EPERM),
        *(threads_only if library else ()), _ALLOWED,
    ]  # fmt: skip
    return [
        _instruction(_JUMP_EQUAL, clone3, otherwise=1), _fail(errno.ENOSYS),
        _instruction(_JUMP_EQUAL, clone, otherwise=len(body)), *body,
    ]  # fmt: skip


def _instruction(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """One `struct sock_filter`; `then` and `otherwise` are how many instructions to skip."""
    return struct.pack("HBBI", code, then, otherwise, value)


def _fail(error: int) -> bytes:
    return _instruction(_RETURN, _ERRNO | error)


_ALLOWED = _instruction(_RETURN, _ALLOW)
