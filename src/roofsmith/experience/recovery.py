"""What is whole of a broken SQLite file goes to a new one; the broken one stays, renamed."""

from __future__ import annotations

import re
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from roofsmith.domain.experiment import Experiment
from roofsmith.errors import StorageError
from roofsmith.experience.locked import locked

Fill = Callable[[Path, list[Experiment]], object]
"""Makes a database that holds just these."""

_MAGIC: Final = b"SQLite format 3\x00"
"""How a file begins (sqlite.org/fileformat2.html, 1.3.1)."""
_BROKEN: Final = re.compile(r"malformed|not a database|unsupported file format")
_GIVES_UP_AFTER: Final = 2000
"""Numbers in a row at which nothing is whole, behind the last that is."""
_PAGES_AT = 28
"""Where a file's header counts its pages (sqlite.org/fileformat2.html, 1.3)."""


def is_broken(error: Exception) -> bool:
    """Whether the file itself is at fault, not who holds it or where it lies."""
    cause = getattr(error, "orig", None)
    return isinstance(cause, sqlite3.DatabaseError) and bool(_BROKEN.search(str(cause)))


def recover(path: Path, fill: Fill) -> str | None:
    """Put a new file in the place of a broken one.

    Returns what was done, for people; None: another process did it meanwhile.

    Raises:
        OSError: the disk is full, or may not be written.
        StorageError: it is somebody's file of another kind.
    """
    lock = path.with_name(f"{path.name}.recovery")
    with locked(lock):
        try:
            return None if _is_sound(path) else _recovered(path, fill)
        finally:
            lock.unlink()


def _recovered(path: Path, fill: Fill) -> str:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".recovery-") as folder:
        new = Path(folder) / "new.db"
        found = _whole(path, Path(folder), fill)
        if not found and not begins_as_database(path):
            raise StorageError(
                f"{path} is no database of experiments, and stays as it is",
                hint="let $ROOFSMITH_EXPERIENCE name another file, or move this one away",
            )
        fill(new, found)
        aside = _set_aside(path)
        new.replace(path)
    return f"{path} was broken: {len(found)} experiments of it are whole; it is kept as {aside}"


def begins_as_database(path: Path) -> bool:
    """Whether a file begins as SQLite's do; raises an OSError where it can't be read."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _is_sound(path: Path) -> bool:
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(path)) as connection:
        return bool(connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",))
    return False


def _set_aside(path: Path) -> Path:
    """The broken file under another name; `path` is there all the while."""
    number = 1
    while (aside := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    aside.hardlink_to(path)
    for companion in ("-wal", "-shm"):
        beside = path.with_name(path.name + companion)
        if beside.exists():
            beside.rename(aside.with_name(aside.name + companion))
    return aside


def _whole(path: Path, folder: Path, fill: Fill) -> list[Experiment]:
    """What can be read of a copy; where its first page is broken, with that of an empty file."""
    copy = folder / "copy.db"
    shutil.copyfile(path, copy)
    if (log := path.with_name(f"{path.name}-wal")).exists():
        shutil.copyfile(log, folder / "copy.db-wal")
    found = {one.id: one for one in _readable(copy)}
    if not found:
        empty = folder / "empty.db"
        fill(empty, [])
        _graft(copy, empty)
        found = {one.id: one for one in _readable(copy)}
    return sorted(found.values(), key=lambda one: one.time)


def _graft(copy: Path, empty: Path) -> None:
    """Give a file the first page of another one, whose tables are the same."""
    page = bytearray(empty.read_bytes()[: _page_bytes(empty)])
    pages = copy.stat().st_size // len(page)
    page[_PAGES_AT : _PAGES_AT + 4] = struct.pack(">I", pages)
    with copy.open("r+b") as file:
        file.write(page)


def _page_bytes(path: Path) -> int:
    """At 16 of the header; 1 stands for 65536."""
    with path.open("rb") as file:
        (found,) = struct.unpack(">H", file.read(18)[16:])
    return 65536 if found == 1 else int(found)


def _readable(copy: Path) -> Iterator[Experiment]:
    with closing(sqlite3.connect(copy)) as connection:
        connection.text_factory = bytes
        for body in _bodies(connection):
            with suppress(ValidationError):
                yield Experiment.model_validate_json(body)


def _bodies(connection: sqlite3.Connection) -> Iterator[bytes]:
    """From both ends up to what is broken, then number by number between them."""
    last, seen = 0, set[int]()
    for order in ("", " DESC"):
        with suppress(sqlite3.DatabaseError):
            for seq, body in connection.execute(
                f"SELECT seq, body FROM experiments ORDER BY seq{order}"
            ):
                if seq in seen:
                    break
                seen.add(seq)
                yield body
    last, seq = max(seen, default=0), 0
    while seq < last + _GIVES_UP_AFTER:
        seq += 1
        if seq in seen:
            continue
        with suppress(sqlite3.DatabaseError):
            for (body,) in connection.execute("SELECT body FROM experiments WHERE seq = ?", (seq,)):
                last = max(last, seq)
                yield body
