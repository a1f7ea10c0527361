"""Files in a folder that all users share, locked by whoever they name: nobody replaces another's.

A lock is an flock: the kernel lets go of it when its process dies, however that happens. A file's
text only says who that is, and is believed only where the lock is held and the process that it
names is alive.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
from datetime import UTC, datetime
from pathlib import Path

from roofsmith.errors import MachineError
from roofsmith.machine.processes import is_alive, owner_of, pid_namespace

USUAL = Path("/run/lock")
"""Made for this (FHS 3.0, 5.9): emptied at boot, and open to all users on Debian and its kin."""
OTHERWISE = Path("/tmp")  # a folder that all users share, whatever TMPDIR says
MAX_TEXT_BYTES = 4096
MAX_COMMAND = 100
UNNAMED = "a process that left no name"

NO_LINKS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_UNPRINTABLE = re.compile(r"[^ -~\u00a0-\U0010ffff]+")


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
    shown = f"pid {pid}{place} ({owner or user}): {short(command)}, since {since} UTC"
    return _UNPRINTABLE.sub(" ", shown.replace(f"since {today}", "since "))


def opened(path: Path) -> int | None:
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
        raise unusable(path, "it is no plain file, or has several names")
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
    return os.open(path, flags | NO_LINKS, 0o666)


def unusable(path: Path, why: str) -> MachineError:
    """The error of a lock file that can't be used."""
    return MachineError(
        f"the lock file {path} can't be used: {why}",
        hint=f"have its owner or root remove it (ls -l {path}), or export"
        " ROOFSMITH_LEASES=/a/folder that all users of these GPUs share",
    )


def require_safe(folder: Path) -> None:
    """See that nobody may replace another's files in a folder.

    Raises:
        MachineError: somebody may, or it isn't there.
    """
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


def locked(descriptor: int) -> bool:
    """Lock a file; False: another process has."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_still(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one that has this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def short(command: str) -> str:
    """A command line as far as it is shown."""
    return command if len(command) <= MAX_COMMAND else f"{command[: MAX_COMMAND - 1]}…"
