"""Who takes turns on a GPU, and who waits for one: a file for each, locked while it takes part.

Files of the dead are not locked any more, and count for nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofsmith.machine.lock_files import (
    MAX_TEXT_BYTES,
    NO_LINKS,
    UNNAMED,
    is_still,
    lock_name,
    told,
    unusable,
    usual_folder,
)
from roofsmith.machine.processes import is_alive, pid_namespace

TEXT_BYTES = 1024
"""Of a seat's text, filled up with spaces: it is always written in one piece."""


class Seat:
    """This process among those that take turns on a GPU, until it is closed."""

    def __init__(self, lock: Path, name: Mapping[str, Any]) -> None:
        """Take part.

        Args:
            lock: the GPU's lock file, beside which it lies.

        Raises:
            MachineError: the file can't be made.
        """
        self._name = name
        self.since_s: float | None = None
        """When this process began to wait for its turn; None: it doesn't."""
        while True:
            self.path = lock.with_name(f"{lock.name}.{secrets.token_hex(8)}")
            self._file = _created(self.path)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            if is_still(self._file, self.path):
                break
            os.close(self._file)  # somebody took it for one of the dead's
        self._write()

    def wait(self, since_s: float | None) -> None:
        """Wait for a turn since then, by the host's monotonic clock; None: no longer."""
        self.since_s = since_s
        self._write()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink()
        fcntl.flock(self._file, fcntl.LOCK_UN)  # a child between fork and exec has a copy
        os.close(self._file)

    def _write(self) -> None:
        text = json.dumps({**self._name, "waits": self.since_s}).encode()
        os.pwrite(self._file, text.ljust(TEXT_BYTES), 0)


@dataclass(frozen=True, slots=True)
class Seated:
    """Somebody else who takes turns on a GPU."""

    waits_since_s: float
    """By the host's monotonic clock; infinity: it doesn't wait for its turn."""
    file: str
    """Its name, which decides between two who came at the same instant."""
    who: str
    """For people, as of a lease's holder."""
    pid: int | None
    """Its process, where it is alive and can be seen from here."""

    @property
    def waits(self) -> bool:
        """Whether it waits for its turn."""
        return self.waits_since_s < float("inf")


def seated(lock: Path, but: Collection[Path]) -> tuple[Seated, ...]:
    """Everybody else who takes turns on a GPU, those who wait first and in their order."""
    paths = set(lock.parent.glob(f"{lock.name}.*")) - set(but)
    found = (one for path in paths if (one := _seated(path)) is not None)
    return tuple(sorted(found, key=lambda one: (one.waits_since_s, one.file)))


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where a process is in the line for a GPU, as far as its files say."""

    holder: str
    """Who has the GPU, for people; empty: nobody that can be seen from here."""
    is_its: bool
    """Whether that is the process itself."""
    place: int | None
    """Among those who wait, from 1; None: it doesn't wait."""


def turn_of(uuid: str, pid: int, folder: Path | None = None) -> QueuePlace:
    """Of a process, for whoever only looks: nothing is locked, nothing of the dead's cleared."""
    lock = (folder or usual_folder()) / lock_name(uuid)
    found = [_read(path, _looked(path)) for path in lock.parent.glob(f"{lock.name}.*")]
    alive = [one for one in found if one is not None and one.waits and one.pid is not None]
    line = [one.pid for one in sorted(alive, key=lambda one: (one.waits_since_s, one.file))]
    holder = told(_looked(lock))
    return QueuePlace(
        holder="" if holder == UNNAMED else holder, is_its=holder.startswith(f"pid {pid} ("),
        place=line.index(pid) + 1 if pid in line else None,
    )  # fmt: skip


def _looked(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | NO_LINKS)
        try:
            return os.read(file, MAX_TEXT_BYTES)
        finally:
            os.close(file)
    return b""


def _created(path: Path) -> int:
    mask = os.umask(0)  # others must be able to read it
    try:
        return os.open(path, NO_LINKS | os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError as error:
        raise unusable(path, error.strerror or str(error)) from error
    finally:
        os.umask(mask)


def _seated(path: Path) -> Seated | None:
    text = _text(path)
    return None if text is None else _read(path, text)


def _read(path: Path, text: bytes) -> Seated | None:
    try:
        name = json.loads(text)
        pid, waits = int(name["pid"]), name["waits"]
        there = name["space"] == pid_namespace() and is_alive(pid, name["started"])
        since_s = float("inf") if waits is None else float(waits)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return Seated(since_s, path.name, told(text), pid if there else None)


def _text(path: Path) -> bytes | None:
    """What a seat says; None of the dead's, which is cleared away where that is allowed."""
    try:
        file = os.open(path, os.O_RDONLY | NO_LINKS)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with contextlib.suppress(OSError):
            path.unlink()
    except BlockingIOError:
        return os.pread(file, MAX_TEXT_BYTES, 0)
    finally:
        os.close(file)
    return None
