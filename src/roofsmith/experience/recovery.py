"""A broken SQLite file stays, renamed, and a new one takes its place."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from roofsmith.errors import StorageError

_MAGIC: Final = b"SQLite format 3\x00"
"""How a file begins (sqlite.org/fileformat2.html, 1.3.1)."""
_BROKEN: Final = re.compile(r"malformed|not a database|unsupported file format")
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}
"""What a file system without locks says, such as NFS without its daemon."""


def is_broken(error: Exception) -> bool:
    """Whether the file itself is at fault, not who holds it or where it lies."""
    cause = getattr(error, "orig", None)
    return isinstance(cause, sqlite3.DatabaseError) and bool(_BROKEN.search(str(cause)))


def set_aside(path: Path) -> str | None:
    """Have a broken file out of the way; the next command makes a new one.

    Returns what was done, for people; None: another process did it meanwhile.

    Raises:
        OSError: it may not be written there.
        StorageError: it is somebody's file of another kind.
    """
    lock = path.with_name(f"{path.name}.recovery")
    with locked(lock):
        try:
            if _is_sound(path):
                return None
            if not begins_as_database(path):
                raise StorageError(
                    f"{path} is no database of experiments, and stays as it is",
                    hint="let $ROOFSMITH_EXPERIENCE name another file, or move this one away",
                )
            aside = _set_aside(path)
        finally:
            lock.unlink()
    return (
        f"{path} was broken, and is kept as {aside}; `roofsmith experience import DIR` reads a"
        f" campaign's rounds again, `sqlite3 {aside} .recover` what else is whole"
    )


def begins_as_database(path: Path) -> bool:
    """Whether a file begins as SQLite's do; raises an OSError where it can't be read."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _is_sound(path: Path) -> bool:
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(path)) as connection:
        return bool(connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",))
    return False


def _set_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    path.rename(aside)
    for companion in ("-wal", "-shm"):
        beside = path.with_name(path.name + companion)
        if beside.exists():
            beside.rename(aside.with_name(aside.name + companion))
    return aside


@contextmanager
def locked(path: Path, *, waits: bool = True, must: bool = True) -> Iterator[BinaryIO]:
    """The file, made if it isn't there; again where another process has just taken it away.

    Args:
        path: of the file.
        waits: for another process that holds it.
        must: be locked; else it is given unlocked where the file system has no locks.

    Raises:
        BlockingIOError: another process holds it, and nobody waits.
        OSError: it can't be made, or locked.
    """
    while True:
        with path.open("ab+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            except OSError as error:
                if must or error.errno not in _NO_LOCKS:
                    raise
            if _is_there(path, file):
                file.seek(0)
                yield file
                return


def _is_there(path: Path, file: BinaryIO) -> bool:
    try:
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False
