"""Processes of this machine: whose they are, and which of them are this command's own."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from roofsmith.scratch import pid_namespace

__all__ = [
    "OwnProcesses", "exists", "gone", "is_alive", "owner_of", "pid_namespace", "started_ticks",
    "user_name",
]  # fmt: skip

_PARENT, _FLAGS, _STARTED = 1, 6, 19
"""Fields 4, 9 and 22 of /proc/PID/stat (proc_pid_stat(5)), counted after the name, which is field 2
and may hold spaces."""
_EXITING = 0x4
"""PF_EXITING of Linux's sched.h."""


class OwnProcesses:
    """This process and all that came of it."""

    def __init__(self) -> None:
        self._known = {os.getpid()}

    def among(self, pids: Iterable[int]) -> frozenset[int]:
        """Those that are this command's, also those that were and are gone."""
        return frozenset(pid for pid in pids if self._is_own(pid))

    def _is_own(self, pid: int) -> bool:
        if pid in self._known:
            return True
        line = [pid]
        while (parent := parent_of(line[-1])) is not None and parent > 1:
            if parent in self._known:
                self._known.update(line)
                return True
            line.append(parent)
        return False


def gone(pids: Iterable[int]) -> frozenset[int]:
    """Those that aren't there any more, or are just ending, though a driver lists them.

    It does so for some tenths of a second after a process was killed: its memory is given back
    then, and it may be an orphan already. In a container a driver may also list processes, own ones
    among them, by numbers that mean nothing here.
    """
    return frozenset(pid for pid in pids if not exists(pid) or is_ending(pid))


def is_ending(pid: int) -> bool:
    """Whether it was killed or has returned, and computes no more."""
    return bool((_field(pid, _FLAGS) or 0) & _EXITING)


def exists(pid: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def is_alive(pid: int, started: object) -> bool:
    """Whether a process is there, and isn't another one with the number of one before.

    Args:
        pid: its number.
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


def _field(pid: int, number: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(text.rpartition(")")[2].split()[number])
    except (OSError, ValueError, IndexError):
        return None
