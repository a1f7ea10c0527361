"""Temporary folders that carry their owner's name, so that what a killed process left is found."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from roofsmith.errors import RoofsmithError, StorageError

CACHE_CURE = "export ROOFSMITH_CACHE=/some/writable/folder"
KEPT_LOG_S = 7 * 24 * 3600.0
"""Logs of what failed outlive their process, for people to read."""
_LOG = re.compile(r"roofsmith-(?:worker|reference)-\w+\.log")
"""As whoever writes them names them."""
_NAME = re.compile(r"roofsmith-[a-z]+-(?P<space>\d+)\.(?P<pid>\d+)-\w+")


def scratch_directory(kind: str, beside: Path | None = None) -> Path:
    """A new private folder; the caller removes it.

    Args:
        kind: what it is for, such as `worker`: a word in lower case.
        beside: the folder that it is made in; None: the system's temporary one, where
            `remove_stale` finds it.

    Raises:
        StorageError: it can't be made.
    """
    try:
        return Path(tempfile.mkdtemp(prefix=scratch_prefix(kind), dir=beside))
    except OSError as error:
        raise StorageError(
            f"can't make a temporary folder: {error.strerror or error}",
            hint="free some space in /tmp, or export TMPDIR=/some/writable/folder",
        ) from error


def scratch_prefix(kind: str) -> str:
    """`roofsmith-<kind>-<pid namespace>.<pid>-`: how such a folder's name begins.

    The namespace, because containers that share a temporary folder don't share their processes.
    """
    return f"roofsmith-{kind}-{pid_namespace()}.{os.getpid()}-"


def written(path: Path) -> str:
    """What a tool wrote there; empty where it wrote nothing."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def noexec_mount(folder: Path) -> Path | None:
    """The file system on which nothing can be run or loaded from a folder; None: it can."""
    place = existing(folder).resolve()
    if not os.statvfs(place).f_flag & os.ST_NOEXEC:
        return None
    return next(path for path in (place, *place.parents) if path.is_mount())


def no_loading(cache: Path) -> str | None:
    """Why nothing that is kept in the cache can be loaded; None: it can."""
    mount = noexec_mount(cache)
    if mount is None:
        return None
    return f"{mount}, where the cache {cache} lies, is mounted noexec: no kernel can be loaded"


def filed_log(log: Path, folder: Path) -> Path:
    """Move a log out of the temporary folder, if it is one of those; returns where it is now.

    It is named after its content, so that what dies in the same way again leaves no second one.
    """
    if log.parent != Path(tempfile.gettempdir()) or not _LOG.fullmatch(log.name):
        return log
    kind = log.name.split("-")[1]
    try:
        digest = hashlib.sha256(log.read_bytes()).hexdigest()
        place = folder / f"{kind}-{digest[:12]}.log"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.move(log, place)
    except OSError:
        return log
    return place


@contextlib.contextmanager
def filing_logs(folder: Path) -> Iterator[None]:
    """Have every error name a log that stays, as `filed_log` does."""
    try:
        yield
    except RoofsmithError as error:
        if error.log is not None:
            error.log = filed_log(error.log, folder)
        raise


def remove_stale(beside: Path | None = None) -> tuple[Path, ...]:
    """Remove this user's scratch folders whose owner is dead, and logs of a week ago; what went.

    Never fails: what can't be looked at or removed stays.

    Args:
        beside: another folder in which there may be some.
    """
    stale = []
    found = [*Path(tempfile.gettempdir()).glob("roofsmith-*")]
    for path in [*found, *(() if beside is None else beside.glob("roofsmith-*"))]:
        if is_stale(path.name) and _is_own_folder(path):
            shutil.rmtree(path, ignore_errors=True)
            stale.append(path)
        elif _LOG.fullmatch(path.name) and _is_old_log(path):
            with contextlib.suppress(OSError):
                path.unlink()
                stale.append(path)
    return tuple(stale)


def is_stale(name: str) -> bool:
    """Whether a name begins as `scratch_prefix` says, and its owner is dead."""
    owner = _NAME.fullmatch(name)
    if owner is None or int(owner["space"]) != pid_namespace():
        return False
    return not exists(int(owner["pid"]))


def pid_namespace() -> int:
    """Number of the namespace that this process's number counts in; 0 where there is none."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def kernel_boot() -> str:
    """Which start of which machine's kernel this is; empty where it isn't told.

    Containers of one machine share it; machines that share a file system don't.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def exists(pid: int) -> bool:
    """Whether there is a process of this number."""
    if pid <= 0:  # a signal to such a number goes to groups of processes
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _is_old_log(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    is_own = found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode)
    return is_own and time.time() - found.st_mtime > KEPT_LOG_S


def _is_own_folder(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and path.is_dir() and not path.is_symlink()
