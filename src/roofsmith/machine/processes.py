"""Processes of this machine: whose they are, and which of them are this command's own."""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from roofsmith.scratch import exists, pid_namespace

__all__ = [
    "OwnProcesses", "descended", "exists", "is_alive", "nobody", "owner_of", "pid_namespace",
    "started_ticks", "user_name",
]  # fmt: skip

_PARENT, _FLAGS, _STARTED = 1, 6, 19
"""Fields 4, 9 and 22 of /proc/PID/stat (proc_pid_stat(5)), counted after the name, which is field 2
and may hold spaces."""
_EXITING = 0x4
"""PF_EXITING of Linux's sched.h."""

GPU_FILES = (
    "/dev/nvidia", "/dev/nvhost", "/dev/nvmap", "/dev/nvgpu", "/dev/dxg", "/dev/kfd", "/dev/dri/",
)  # fmt: skip
"""How the files begin that a process has open as long as it uses a GPU: NVIDIA's driver, Tegra's,
WSL's, AMD's."""


class OwnProcesses:
    """This process and all that came of it; and of another one, where that one asks this one.

    Args:
        asked_by: the other one.
    """

    def __init__(self, asked_by: int | None = None) -> None:
        roots = {os.getpid(), *([] if asked_by is None else [asked_by])}
        self._known = {pid: started_ticks(pid) for pid in roots}
        """With the time when each started: numbers are used again."""

    def among(self, pids: Iterable[int]) -> frozenset[int]:
        """Those that are this command's, also those that were and are gone."""
        return frozenset(pid for pid in pids if self._is_own(pid))

    def with_open(self, files: Sequence[str]) -> frozenset[str]:
        """Programs of this command, but not itself, that have a file open, by their names."""
        there = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
        ours = self.among(there) - {os.getpid()}
        return frozenset(
            name for pid in ours if _has_open(pid, files) and (name := _name_of(pid)) is not None
        )

    def _is_own(self, pid: int) -> bool:
        line = [pid]
        while not self._is_known(line[-1]):
            parent = parent_of(line[-1])
            if not parent:  # hidden or gone; or the first process, whose parent is 0
                return False
            line.append(parent)
        self._known.update((one, started_ticks(one)) for one in line[:-1])
        return True

    def _is_known(self, pid: int) -> bool:
        return pid in self._known and started_ticks(pid) in (None, self._known[pid])


def descended(pids: Iterable[int], roots: Collection[int]) -> frozenset[int]:
    """Those that are one of some processes, or came of it; not where /proc hides how."""
    found = set()
    for pid in pids:
        one: int | None = pid
        while one and one not in roots:
            one = parent_of(one)
        if one:
            found.add(pid)
    return frozenset(found)


def nobody(pids: Iterable[int], files: Sequence[str] = GPU_FILES) -> frozenset[int]:
    """Numbers that a driver lists, and by which no process here goes that uses a GPU.

    Of a process that was killed, a driver shows its number for some tenths of a second: its memory
    is given back then, and it may be an orphan already. In a container a driver may also list
    processes, own ones among them, by numbers that mean nothing here, or are another process's.

    Args:
        pids: as the driver lists them.
        files: how the names of a GPU's device files begin.
    """
    return frozenset(
        pid for pid in pids if not exists(pid) or is_ending(pid) or not _may_use(pid, files)
    )


def is_ending(pid: int) -> bool:
    """Whether it was killed or has returned, and computes no more."""
    return bool((_field(pid, _FLAGS) or 0) & _EXITING)


def is_alive(pid: int, started: object) -> bool:
    """Whether a process is there, and isn't another one with the number of one before.

    Args:
        started: what `started_ticks` said of it; not compared where /proc hides the process.
    """
    return exists(pid) and started_ticks(pid) in (None, started)


def started_ticks(pid: int) -> int | None:
    """When it started, in clock ticks since boot; None: it is gone, or hidden from us."""
    return _field(pid, _STARTED)


def parent_of(pid: int) -> int | None:
    """Its parent's number; None: it is gone, or hidden from us."""
    return _field(pid, _PARENT)


def owner_of(pid: int) -> str | None:
    """The user whose process it is; None: it is gone, or hidden from us."""
    try:
        return user_name(Path(f"/proc/{pid}").stat().st_uid)
    except OSError:
        return None


def user_name(uid: int) -> str:
    """As people know it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _may_use(pid: int, files: Sequence[str]) -> bool:
    """Whether a process has a GPU open, or may: its files are hidden from us.

    The first process then doesn't: it is init; or a driver outside a sandbox lists the whole of it
    by this number, with all that is ours.
    """
    opened = _has_open(pid, files)
    return pid != 1 if opened is None else opened


def _has_open(pid: int, files: Sequence[str]) -> bool | None:
    """Whether a process has such a file open; None where its files are hidden from us."""
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                if str(descriptor.readlink()).startswith(tuple(files)):
                    return True
    except (FileNotFoundError, ProcessLookupError):  # gone meanwhile
        return False
    except OSError:
        return None
    return False


def _name_of(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.strip()


def _field(pid: int, number: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(text.rpartition(")")[2].split()[number])
    except (OSError, ValueError, IndexError):
        return None
