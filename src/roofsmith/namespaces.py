"""Namespaces: a worker's or an agent's own view of users, mounts, network and processes.

Standard library only, like the workers and keepers that use it. See namespaces(7),
user_namespaces(7) and mount_setattr(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import signal
import struct
from collections.abc import Collection, Sequence
from typing import NoReturn

from roofsmith.privileges import die_with_parent

USER, MOUNT, NETWORK, PROCESS = (
    "user namespace", "mount namespace", "network namespace", "process namespace",
)  # fmt: skip
_FLAGS = {USER: 0x10000000, MOUNT: 0x00020000, NETWORK: 0x40000000, PROCESS: 0x20000000}

SCRATCH_BYTES, COMPILERS_BYTES = 64 * 1024**2, 1024**3
SCRATCH_FILES = 8192
"""What a worker may write, in memory that goes with it; a compiler's steps take more."""

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = (
    2, 4, 8, 4096, 16384, 1 << 18,
)  # fmt: skip
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_READ_ONLY, _NO_SETUID, _NO_DEVICES = 1, 2, 4
_PID_MAX = "/proc/sys/kernel/pid_max"
_OWN_PID_MAX_SINCE = (6, 14)
"""Before Linux 6.14 there is one limit for the whole machine, which must not be touched."""
_LEAST_PID_MAX = 512


def enter(layers: Collection[str], tasks: int) -> None:
    """Go on in new namespaces of these kinds; only from a process without threads.

    With a process namespace this function returns in a grandchild, and the process that called it
    ends as that one does. /proc is then that namespace's: CUDA looks itself up there by its number.

    Raises:
        OSError: the kernel refuses.
    """
    uid, gid = os.geteuid(), os.getegid()
    _unshare(sum(flag for name, flag in _FLAGS.items() if name in layers))
    if USER in layers:
        _know_oneself(uid, gid)
    if PROCESS in layers:
        _become_second_process()
        _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        if has_own_pid_max():
            _tell(_PID_MAX, str(max(tasks, _LEAST_PID_MAX)))


def enter_for_files(layers: Collection[str]) -> None:
    """Go on in a new mount namespace, and in a user namespace where that is among the layers.

    Only from a process without threads. What is mounted outside from now on isn't there, nor the
    other way round. Everybody stays who they were: root's user namespace knows
    all users and groups, anybody else's themselves alone, and the others are nobody there.

    Raises:
        OSError: the kernel refuses.
    """
    if USER in layers:
        _enter_known()
    else:
        _unshare(_FLAGS[MOUNT])
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)


def _enter_known() -> None:
    uid, gid, inside = os.geteuid(), os.getegid(), os.getpid()
    entered, tell = os.pipe()
    outside = os.fork()  # who is in the namespace already may not say who else is
    if outside == 0:
        os.close(tell)
        os.read(entered, 1)
        os._exit(_know_everybody(inside))
    os.close(entered)
    _unshare(_FLAGS[USER] | _FLAGS[MOUNT])
    os.close(tell)
    if os.waitpid(outside, 0)[1] != 0:
        _know_oneself(uid, gid)


def _know_everybody(pid: int) -> int:
    """Give a process's user namespace the ids of this one; not 0 if that may not be."""
    try:
        for kind in ("uid", "gid"):
            with open(f"/proc/self/{kind}_map", encoding="ascii") as file:
                ranges = [line.split() for line in file]
            same = "".join(f"{first} {first} {count}\n" for first, _, count in ranges)
            _tell(f"/proc/{pid}/{kind}_map", same)
    except OSError:
        return 1
    return 0


def _know_oneself(uid: int, gid: int) -> None:
    _tell("/proc/self/setgroups", "deny")
    _tell("/proc/self/gid_map", f"{gid} {gid} 1")
    _tell("/proc/self/uid_map", f"{uid} {uid} 1")


def _tell(file: str, text: str) -> None:
    with open(file, "w", encoding="ascii") as kernel:
        kernel.write(text)


def limit_tasks(tasks: int) -> None:
    """At most this many processes and threads of this user, in its namespace if it has one.

    The kernel doesn't hold root to it: see `has_own_pid_max`.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most = tasks if hard == resource.RLIM_INFINITY else min(tasks, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def has_own_pid_max() -> bool:
    """Whether a process namespace can be given a limit of its own, and this user may set it."""
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    is_new = found is not None and (int(found[1]), int(found[2])) >= _OWN_PID_MAX_SINCE
    return is_new and os.access(_PID_MAX, os.W_OK)


def make_read_only(
    scratch: str, writable: Sequence[str], scratch_bytes: int = SCRATCH_BYTES
) -> None:
    """In a mount namespace: nothing can be written but a new empty scratch and these folders.

    Raises:
        OSError: the kernel refuses.
    """
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    size = f"size={scratch_bytes},nr_inodes={SCRATCH_FILES},mode=700"
    _mount("tmpfs", scratch, "tmpfs", _MS_NOSUID | _MS_NODEV, size)
    for folder in writable:
        _mount(folder, folder, None, _MS_BIND)
    _set_attributes("/", _AT_RECURSIVE, on=_READ_ONLY)
    for folder in (scratch, *writable):
        _set_attributes(folder, 0, off=_READ_ONLY)
    os.chdir(scratch)


def bind(source: str, target: str) -> None:
    """In a mount namespace: show one file or folder in the place of another.

    Raises:
        OSError: the kernel refuses, or there is none.
    """
    _mount(source, target, None, _MS_BIND | _MS_REC)


def allow_changes_in(mounts: Sequence[str]) -> None:
    """In a mount namespace: nothing about any file can be changed but in these mounts.

    Not its mode, owner, times or attributes either, as long as nobody here may mount. Devices that
    are made there can't be opened.

    Raises:
        OSError: the kernel refuses.
    """
    _set_attributes("/", _AT_RECURSIVE, on=_READ_ONLY)
    for path in mounts:
        _set_attributes(path, 0, on=_NO_SETUID | _NO_DEVICES, off=_READ_ONLY)


def _become_second_process() -> None:
    """Go on as the second process of the new namespace.

    The first one reaps what is orphaned and takes everything with it when it ends. It can't be the
    worker itself: the kernel spares the first process its own signals, so `abort` would do
    nothing. The caller stays outside, and ends as the worker did.
    """
    read, write = os.pipe()
    first = os.fork()
    if first:
        die_with_parent()
        _close_all_but(read)
        _end_like(read, first)
    die_with_parent()
    os.close(read)
    worker = os.fork()
    if worker:
        _close_all_but(write)
        _reap_until(worker, write)
    die_with_parent()
    os.close(write)


def _reap_until(worker: int, report: int) -> NoReturn:
    """Be the first process: reap orphans until the worker ends, then say how."""
    while True:
        pid, status = os.wait()
        if pid == worker:
            with contextlib.suppress(OSError):
                os.write(report, struct.pack("i", status))
            os._exit(0)


def _end_like(report: int, first: int) -> NoReturn:
    """End as the worker did: with its exit code, or by its signal."""
    told = os.read(report, 4)
    os.waitpid(first, 0)
    status = struct.unpack("i", told)[0] if len(told) == struct.calcsize("i") else signal.SIGKILL
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(max(code, 0))


def _close_all_but(kept: int) -> None:
    """Close every descriptor beyond stderr but one: the worker's hang-up must be heard."""
    os.closerange(3, kept)
    os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.unshare(flags))


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, data: str | None = None
) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    result = libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    _checked(result, target)


def _set_attributes(path: str, flags: int, *, on: int = 0, off: int = 0) -> None:
    """mount_setattr(2) with a `struct mount_attr`."""
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = struct.pack("4Q", on, off, 0, 0)
    result = libc.syscall(
        ctypes.c_long(_MOUNT_SETATTR), ctypes.c_int(_AT_FDCWD), os.fsencode(path),
        ctypes.c_uint(flags), attributes, ctypes.c_size_t(len(attributes)),
    )  # fmt: skip
    _checked(result, path)


def _checked(result: int, path: str | None = None) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
