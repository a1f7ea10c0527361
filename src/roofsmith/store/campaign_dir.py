"""The campaign directory: one process at a time works in it, and its files are whole or absent."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from types import TracebackType

from pydantic import ValidationError

from roofsmith.campaign_socket import FOLDER, closed
from roofsmith.domain.ending import Wishes
from roofsmith.errors import CampaignBusyError, StorageError, UsageError
from roofsmith.scratch import exists
from roofsmith.store.files import storage_errors, write_file
from roofsmith.store.memory import beside_readers, flags_by_hand

LEDGER = "ledger.jsonl"
LOCK = ".lock"
WORKTREE = "worktree"
REPOSITORY = "repo"
LINEAGE = "lineage.json"
ASKED = ".asked.json"
"""What somebody wants of the process that works there."""
_HEARD = f"{ASKED}.heard"
"""The same while that process reads it."""
RESULTS = "suite.json"
"""Of a suite, beside its campaigns."""

LEFT_BEHIND = ("env_check.md", "error_report.md")
"""All that stays of a campaign that this machine couldn't begin."""

INHERITED_S = 2.0
"""How long a dead process's lock is waited for. Chosen: a child becomes its program within
milliseconds, unless the machine stands still."""
LOOK_S = 5e-3
"""Between two tries."""

_IGNORE = ".gitignore"
_IGNORE_TEXT = f"""\
# A checkout, a lock and a socket of the campaign's own; the rest may be committed.
/{ASKED}
/{_HEARD}
/{LOCK}
/{FOLDER}/
/{REPOSITORY}/
/{WORKTREE}/
"""
_RESERVED = frozenset(
    {LEDGER, "ledger.head", LOCK, FOLDER, WORKTREE, REPOSITORY, LINEAGE, ASKED, _HEARD}
)
"""First path components that rendered files must keep off."""


class CampaignDirectory:
    """A campaign directory that this process holds until `close`, or until it dies.

    The lock belongs to the kernel's open file, so a killed process leaves none behind for longer
    than a child takes that it was just starting. Also a context manager.
    """

    def __init__(self, directory: Path, lock: int | None) -> None:
        """Use `create` or `open`: they take the lock, whose descriptor is handed over here."""
        self._directory = directory
        self._lock: int | None = lock
        if lock is not None:  # what was asked of a process that is gone is nobody's
            self.asked()

    @classmethod
    def create(cls, directory: Path, *, command: str | None = None) -> CampaignDirectory:
        """Take a directory for a new campaign; it must be empty, absent, or begun and abandoned.

        Args:
            directory: made with its parents if it isn't there.
            command: what the user ran, for the message that another process gets.

        Raises:
            CampaignBusyError: another process holds it; says which.
            UsageError: it holds a campaign already, or something else.
            StorageError: it can't be made or written.
        """
        directory = _absolute(directory)
        with storage_errors("make the campaign directory", directory):
            directory.mkdir(parents=True, exist_ok=True)
            names = {entry.name for entry in directory.iterdir()}
        if names - {LOCK, _IGNORE, *LEFT_BEHIND} and not _holds_campaign(directory):
            raise UsageError(
                f"{directory} isn't empty and holds no campaign",
                hint="name a new or an empty directory with --output",
            )
        held = cls(directory, _take_lock(directory, command))
        begun = False
        try:
            held._begin()
            begun = True
        finally:
            if not begun:
                held.close()
        return held

    @classmethod
    def open(cls, directory: Path, *, command: str | None = None) -> CampaignDirectory:
        """Take the directory of a campaign that has begun.

        Raises:
            CampaignBusyError: another process holds it; says which.
            UsageError: there is no campaign.
            StorageError: the directory can't be written.
        """
        directory = _absolute(directory)
        require_campaign(directory)
        return cls(directory, _take_lock(directory, command))

    @classmethod
    def beside(cls, directory: Path) -> CampaignDirectory:
        """The same without taking it, for an agent's look while its campaign waits: it writes
        nothing there.

        Raises:
            UsageError: there is no campaign.
        """
        directory = _absolute(directory)
        require_campaign(directory)
        return cls(directory, None)

    @property
    def directory(self) -> Path:
        return self._directory

    @property
    def ledger_path(self) -> Path:
        return self._directory / LEDGER

    def write(self, files: Mapping[str, str]) -> None:
        """Write rendered files, each atomically; unchanged ones keep their time stamp.

        Memory notes that were masked stay masked, and a log in `logs/` keeps what it held: if that
        was edited, a correction follows it.

        All paths are checked before the first file is written.

        Raises:
            StorageError: the disk is full or read-only; a path leaves the directory or belongs to
                its records.
        """
        pending = {}
        for relative, text in files.items():
            path = self._inside(relative)
            # Compiler output may hold bytes that aren't text; they arrive as lone surrogates.
            data = text.encode("utf-8", errors="backslashreplace")
            old = self._current(path)
            data = beside_readers(relative, data, old)
            if data != old:
                pending[path] = data
        for path, data in pending.items():
            write_file(path, data)

    def flags_by_hand(self) -> Mapping[int, bool]:
        """Masks that somebody set or took away in a memory note, by round."""
        return flags_by_hand(self._directory)

    def asked(self) -> Wishes:
        """What somebody asked of the process that works here; it is told once."""
        heard = self._directory / _HEARD
        with suppress(OSError):  # what is asked from here on is a file of its own
            (self._directory / ASKED).replace(heard)
        found = _wishes(heard)
        with suppress(OSError):
            heard.unlink()
        return found

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> CampaignDirectory:
        """Itself; the lock is taken already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self) -> None:
        if _has_records(self._directory):
            raise UsageError(
                f"{self._directory} already holds a campaign",
                hint=f"`roofsmith resume {shlex.quote(str(self._directory))}` to go on with it, "
                "or another --output",
            )
        for name in LEFT_BEHIND:
            (self._directory / name).unlink(missing_ok=True)
        write_file(self._directory / _IGNORE, _IGNORE_TEXT.encode())

    def _inside(self, relative: str) -> Path:
        pure = PurePosixPath(relative)
        path = self._directory / pure
        outside = pure.is_absolute() or ".." in pure.parts or not pure.parts or "\0" in relative
        # A symbolic link on the way could lead out of the directory too.
        if outside or not path.parent.resolve().is_relative_to(self._directory.resolve()):
            raise StorageError(f"{relative!r} would lie outside {self._directory}")
        if pure.parts[0] in _RESERVED:
            raise StorageError(f"{relative!r} belongs to the campaign's records: not overwritten")
        return path

    def _current(self, path: Path) -> bytes | None:
        with storage_errors("read", path):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                return None


def asked(directory: Path) -> Wishes:
    """What a campaign's process was asked for and hasn't heeded yet."""
    return _wishes(directory / ASKED)


def _wishes(file: Path) -> Wishes:
    try:
        return Wishes.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):  # nothing, or nothing that anybody can read
        return Wishes()


def ask(directory: Path, wanted: Wishes) -> None:
    """Ask it of the process that works in a campaign's directory, in place of what was before.

    Raises:
        StorageError: it can't be written.
    """
    write_file(directory / ASKED, wanted.model_dump_json().encode())


def require_campaign(directory: Path) -> None:
    """See that a campaign has begun there.

    Raises:
        UsageError: there is none.
        StorageError: its ledger can't be read.
    """
    directory = _absolute(directory)
    if not _has_records(directory):
        there = "holds no campaign" if directory.is_dir() else "is not a directory"
        raise UsageError(
            f"{directory} {there}: no record in {LEDGER}",
            hint=other_than_campaign(directory),
        )


def other_than_campaign(directory: Path) -> str:
    """What to try in place of a directory that holds no campaign."""
    if (directory / RESULTS).exists():
        shown = f"`roofsmith suite {shlex.quote(str(directory))}`"
        return f"it holds a suite: {shown} shows it, and the command that began it goes on"
    return "name the directory that `roofsmith optimize` printed, or start anew"


def _absolute(directory: Path) -> Path:
    return Path(os.path.abspath(directory))  # noqa: PTH100 - resolve() would follow links


def _has_records(directory: Path) -> bool:
    """Whether a first record was written whole: what a crash left of one is no campaign."""
    ledger = directory / LEDGER
    with storage_errors("read", ledger):
        if not ledger.exists():
            return False
        with ledger.open("rb") as lines:
            return lines.readline().endswith(b"\n")


def _holds_campaign(directory: Path) -> bool:
    return (directory / LEDGER).exists() or bool(_holder(directory / LOCK))


@contextmanager
def held(directory: Path, name: str) -> Iterator[None]:
    """A folder of another kind, for one process at a time.

    Args:
        directory: the folder, which is there.
        name: of the lock's file in it.

    Raises:
        CampaignBusyError: another process holds it; says which.
        StorageError: the lock can't be written.
    """
    lock = _take_lock(directory, None, name)
    try:
        yield
    finally:
        os.close(lock)


def _take_lock(directory: Path, command: str | None, name: str = LOCK) -> int:
    path = directory / name
    with storage_errors("lock", path):
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        taken = False
        try:
            try:
                _await_lock(lock, path)
            except BlockingIOError:
                closed(directory, idle_only=True)  # by a process that holds it for commands
                _await_lock(lock, path)
            os.ftruncate(lock, 0)
            os.pwrite(lock, _signature(command), 0)
            taken = True
        except BlockingIOError as error:
            raise CampaignBusyError(
                f"another process is working in {directory}: {_describe(_holder(path))}",
                hint="wait for it or stop it, or name another directory with --output",
            ) from error
        finally:
            if not taken:
                os.close(lock)
    return lock


def _await_lock(lock: int, path: Path) -> None:
    """Take a lock that is free, or about to be.

    Who is killed while starting a program leaves the lock to that child, which closes it once it
    is the program: some milliseconds later.

    Raises:
        BlockingIOError: another process has it.
    """
    until = time.monotonic() + INHERITED_S
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not _is_dead(_holder(path)) or time.monotonic() > until:
                raise
        time.sleep(LOOK_S)


def _signature(command: str | None) -> bytes:
    holder = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "command": command or shlex.join(sys.argv),
    }
    return (json.dumps(holder) + "\n").encode("ascii")


def _holder(lock_path: Path) -> dict[str, object]:
    """Who wrote the lock file; empty if nobody did, or not this program."""
    try:
        holder = json.loads(lock_path.read_bytes())
    except (OSError, ValueError):
        return {}
    return holder if isinstance(holder, dict) and {"pid", "command"} <= holder.keys() else {}


def _is_dead(holder: dict[str, object]) -> bool:
    """Whether a holder was a process of this host, and is gone."""
    pid = holder.get("pid")
    here = holder.get("host") == socket.gethostname()
    return here and isinstance(pid, int) and not exists(pid)


@dataclass(frozen=True, slots=True)
class Working:
    pid: int
    directory: Path
    command: str
    since: datetime


def working() -> Iterator[Working]:
    """All of this user on this machine, as the kernel knows who has a directory's lock open."""
    seen: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if folder.stat().st_uid != os.geteuid():
                continue
            locks = {Path(link.readlink()) for link in (folder / "fd").iterdir()
                     if link.readlink().name == LOCK}  # fmt: skip
            for lock in locks:
                holder, pid = _holder(lock), int(folder.name)
                if holder.get("pid") == pid and pid not in seen:
                    seen.add(pid)
                    since = datetime.fromtimestamp(lock.stat().st_mtime, UTC)
                    yield Working(pid, lock.parent, str(holder["command"]), since)


def _describe(holder: dict[str, object]) -> str:
    if not holder:
        return "it has only just begun"
    return f"process {holder['pid']} on {holder.get('host')}: {holder['command']}"
