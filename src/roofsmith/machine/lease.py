"""One holder per GPU among all processes and users of this host.

A lease is an flock on a file named after the GPU, in a folder where everybody may create files and
nobody may replace another's. The kernel lets go of it when its holder dies, however that happens.
The file's text only says who that is, and is believed only where the lock is held and the process
that it names is alive.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from roofsmith.errors import MachineError
from roofsmith.machine.processes import is_alive, owner_of, pid_namespace, started_ticks, user_name
from roofsmith.ports import Clock

USUAL = Path("/run/lock")
"""Made for this (FHS 3.0, 5.9): emptied at boot, and open to all users on Debian and its kin."""
OTHERWISE = Path("/tmp")  # a folder that all users share, whatever TMPDIR says
ATTEMPTS = 20
"""A lock file may be created or cleared away between two calls, but not for ever."""
MAX_TEXT_BYTES = 4096
MAX_COMMAND = 100
UNNAMED = "a process that left no name"

_NO_LINKS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_UNPRINTABLE = re.compile(r"[^ -~\u00a0-\U0010ffff]+")


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody else who holds the lease of a GPU."""

    who: str
    """For people: `pid 123 (alice): roofsmith optimize target.yaml, since 10:31 UTC`."""


@dataclass(slots=True)
class _Held:
    """A lock of this process."""

    uuid: str
    descriptor: int
    depth: int = 1


_held: dict[Path, _Held] = {}
"""By lock file. Of the whole process, as locks are: a second descriptor would wait for the first.
"""
_guard = threading.Lock()


@dataclass(slots=True)
class FileLease:
    """As long as it isn't released, and this process lives, the GPU is this process's."""

    uuid: str
    _path: Path
    _ours: dict[Path, _Held]
    _released: bool = False

    def release(self) -> None:
        """Let others have it, unless an outer part of this command still needs it."""
        with _guard:
            if self._released:
                return
            self._released = True
            held = self._ours[self._path]
            held.depth -= 1
            if held.depth == 0:
                del self._ours[self._path]
                with contextlib.suppress(OSError):  # opened only for reading
                    os.ftruncate(held.descriptor, 0)
                # Said, not left to closing: a child between fork and exec has a copy.
                fcntl.flock(held.descriptor, fcntl.LOCK_UN)
                os.close(held.descriptor)


@dataclass(frozen=True, slots=True)
class FileLeases:
    """One holder per GPU among all processes and users of the host, by lock files that they share.

    A process may take a lease that it holds already: it is let go with its last release.
    """

    clock: Clock
    command: str
    """Of this process, as others will see it."""
    folder: Path = field(default_factory=lambda: usual_folder())
    _ours: dict[Path, _Held] = field(default_factory=lambda: _held, repr=False)

    def take(self, uuid: str) -> FileLease | Holder:
        """Lease a GPU, or hear who holds it; never waits.

        Raises:
            MachineError: the lock file can't be opened, or is not what it should be.
        """
        path = self.folder / lock_name(uuid)
        with _guard:
            if path in self._ours:
                self._ours[path].depth += 1
                return FileLease(uuid, path, self._ours)
            _require_safe(self.folder)
            for _ in range(ATTEMPTS):
                try:
                    descriptor = _opened(path)
                except OSError as error:
                    raise _unusable(path, error.strerror or str(error)) from error
                if descriptor is None:
                    continue
                if not _locked(descriptor):
                    with os.fdopen(descriptor, "rb") as file:
                        return Holder(told(file.read(MAX_TEXT_BYTES)))
                if not _is_still(descriptor, path):  # cleared away before it was locked
                    os.close(descriptor)
                    continue
                _write(descriptor, self._name())
                self._ours[path] = _Held(uuid, descriptor)
                return FileLease(uuid, path, self._ours)
        raise MachineError(
            f"the lock file {path} comes and goes: no GPU can be leased",
            hint="see what clears that folder, or export ROOFSMITH_LEASES=/another/folder",
        )

    def held(self) -> frozenset[str]:
        """GPUs that this process holds."""
        with _guard:
            return frozenset(held.uuid for held in self._ours.values())

    def _name(self) -> Mapping[str, Any]:
        pid = os.getpid()
        return {
            "pid": pid,
            "started": started_ticks(pid),
            "space": pid_namespace(),
            "user": user_name(os.getuid()),
            "command": _short(self.command),
            "since": f"{self.clock.now().astimezone(UTC):%Y-%m-%d %H:%M}",
        }


def usual_folder() -> Path:
    """/run/lock where all users may create files there, else /tmp: the same for everybody."""
    try:
        mode = USUAL.stat().st_mode
    except OSError:
        return OTHERWISE
    return USUAL if mode & stat.S_ISVTX and mode & stat.S_IWOTH else OTHERWISE


def lock_name(uuid: str) -> str:
    """Of a GPU's lock file."""
    return f"roofsmith-{re.sub(r'[^A-Za-z0-9.-]', '_', uuid)}.lock"


def told(text: bytes, now: datetime | None = None) -> str:
    """Who holds a lock, from its file: `pid 123 (alice): roofsmith optimize, since 10:31 UTC`.

    Anybody may write to the file, and a holder that could not leaves the text of one before: what
    doesn't fit a living process is not shown, and neither are control characters.
    """
    try:
        name = json.loads(text)
        pid, space = int(name["pid"]), int(name["space"])
        started, user = name["started"], str(name["user"])
        command, since = str(name["command"]), str(name["since"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return UNNAMED
    here = space == pid_namespace()
    if here and not is_alive(pid, started):
        return UNNAMED
    owner = owner_of(pid) if here else user
    place = "" if here else " in another container"
    today = f"{now or datetime.now(UTC):%Y-%m-%d} "
    shown = f"pid {pid}{place} ({owner or user}): {_short(command)}, since {since} UTC"
    return _UNPRINTABLE.sub(" ", shown.replace(f"since {today}", "since "))


def _opened(path: Path) -> int | None:
    """A descriptor of the lock file, created where there is none; None: try again.

    O_CREAT on what is there already would fail for other users' files (fs.protected_regular); one
    that may only be read is enough for a lock, but not for a name.
    """
    try:
        descriptor = _open(path, os.O_RDWR)
    except FileNotFoundError:
        return _created(path)
    except PermissionError:
        descriptor = _open(path, os.O_RDONLY)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise _unusable(path, "it is no plain file, or has several names")
    return descriptor


def _created(path: Path) -> int | None:
    mask = os.umask(0)  # others must be able to lock it from its first instant
    try:
        return _open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return None
    finally:
        os.umask(mask)


def _open(path: Path, flags: int) -> int:
    return os.open(path, flags | _NO_LINKS, 0o666)


def _unusable(path: Path, why: str) -> MachineError:
    return MachineError(
        f"the lock file {path} can't be used: {why}",
        hint=f"have its owner or root remove it (ls -l {path}), or export"
        " ROOFSMITH_LEASES=/a/folder that all users of these GPUs share",
    )


def _require_safe(folder: Path) -> None:
    try:
        found = folder.stat()
    except OSError as error:
        raise MachineError(
            f"{folder}, where leases of GPUs are kept, can't be used: {error.strerror or error}",
            hint=f"mkdir -p {folder} && chmod 1777 {folder}",
        ) from error
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not stat.S_ISDIR(found.st_mode) or (shared and not found.st_mode & stat.S_ISVTX):
        raise MachineError(
            f"{folder}, where leases of GPUs are kept, is no folder in which lock files are safe:"
            " others may replace them",
            hint=f"chmod 1777 {folder}",
        )


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _write(descriptor: int, name: Mapping[str, Any]) -> None:
    """Leave the holder's name; a lock without one holds as well."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(name).encode(), 0)


def _short(command: str) -> str:
    return command if len(command) <= MAX_COMMAND else f"{command[: MAX_COMMAND - 1]}…"
