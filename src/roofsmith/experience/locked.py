"""A file that one process holds at a time, and that whoever holds it may take away."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def locked(path: Path, *, waits: bool = True) -> Iterator[BinaryIO]:
    """The file, made if it isn't there; again where another process has just taken it away.

    Raises:
        BlockingIOError: another process holds it, and nobody waits.
        OSError: it can't be made.
    """
    while True:
        with path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            if _is_there(path, file):
                file.seek(0)
                yield file
                return


def _is_there(path: Path, file: BinaryIO) -> bool:
    try:
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False
