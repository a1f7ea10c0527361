"""Durable and atomic file operations, with errors for people."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from roofsmith.errors import StorageError

_HINTS = {
    errno.ENOENT: "check how its name and its folders are spelled",
    errno.ENOSPC: "free some space on that disk",
    errno.EDQUOT: "the disk quota is used up: free some space",
    errno.EFBIG: "the file size limit is reached (`ulimit -f`): raise it",
    errno.EMFILE: "the limit of open files is reached (`ulimit -n`): raise it",
    errno.EROFS: "the file system is read-only: choose a folder that you can write to",
    errno.EACCES: "you may not write there: choose a folder of your own",
    errno.EPERM: "you may not write there: choose a folder of your own",
    errno.ENOTDIR: "a part of that path is a file: choose another path",
    errno.EEXIST: "there is a file of that name: choose another name",
    errno.ENAMETOOLONG: "that name is too long for the file system: choose a shorter one",
}


@contextmanager
def storage_errors(doing: str, path: Path) -> Iterator[None]:
    """Turn the operating system's errors into ours: `can't <doing> <path>: <reason>`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        hint = _HINTS.get(error.errno or 0, "check the disk and the permissions of that path")
        raise StorageError(f"can't {doing} {path}: {reason}", hint=hint) from error


def write_file(path: Path, data: bytes, *, durable: bool = False) -> None:
    """As `replace`, with the folders that are missing.

    Raises:
        StorageError: it can't be written.
    """
    with storage_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, data, durable=durable)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte; a full disk shows as OSError, perhaps after a part of them."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable: a file's own fsync doesn't cover its name."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def stage(path: Path, data: bytes, *, durable: bool = False) -> Path:
    """Write `data` beside `path` and return that file, to be renamed over it.

    Nothing is left behind if it can't be written. The caller handles OSError.
    """
    staged = path.with_name(f".{path.name}.{threading.get_native_id()}.tmp")
    complete = False
    try:
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            write_all(descriptor, data)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        complete = True
    finally:
        if not complete:
            discard(staged)
    return staged


def discard(path: Path) -> None:
    """Remove a temporary file if it is there and can be removed."""
    with suppress(OSError):
        path.unlink()


def replace(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Give `path` new content in one step: readers see the old or the new, never a part."""
    staged = stage(path, data, durable=durable)
    try:
        staged.replace(path)
    except OSError:
        discard(staged)
        raise
