"""The ledger file: append-only, hash-chained, durable before `append` returns.

Beside `ledger.jsonl` stands `ledger.head`, the number of records and the hash of the last one,
because a chain alone can't show that records are missing at its end. The head is replaced right
after a record is durable, so a crash between the two leaves it exactly one record behind, never
ahead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from roofsmith.domain.campaign import Event
from roofsmith.errors import LedgerError
from roofsmith.store.files import discard, replace, stage, storage_errors, sync_directory, write_all
from roofsmith.store.records import GENESIS, BrokenLineError, Record, check_chain, seal, unseal

_HINT = "restore the campaign directory from a copy; a changed ledger proves nothing"


@dataclass(frozen=True, slots=True)
class Head:
    count: int
    hash: str

    def encode(self) -> bytes:
        return (json.dumps({"count": self.count, "hash": self.hash}) + "\n").encode("ascii")

    @classmethod
    def decode(cls, data: bytes) -> Head:
        """The head that was written; ValueError if a single byte is another."""
        values = json.loads(data)
        match values:
            case {"count": int(count), "hash": str(digest)} if count > 0:
                head = cls(count, digest)
            case _:
                raise ValueError("it holds no count and hash")
        if head.encode() != data:
            raise ValueError("it isn't spelled as it was written")
        return head


@dataclass(frozen=True, slots=True)
class _Chain:
    records: tuple[Record, ...]
    torn: bytes
    """What a write that never finished left behind the last newline."""
    size_bytes: int
    """Of the whole records, without the torn rest."""

    @property
    def head(self) -> Head:
        return Head(len(self.records), self.records[-1].hash if self.records else GENESIS)


class JsonlLedger:
    """A ledger in one file. Nothing is opened before it is used.

    Reading changes nothing on disk, so `events` also serves reports on a campaign that is running.
    The first `append` moves a torn last line out of the way; `notes` tells of it. The caller holds
    the campaign's lock while it appends.
    """

    def __init__(self, path: Path) -> None:
        """`path` is the ledger's file; the head file is named after it (`ledger.head`)."""
        self.path = path
        self.head_path = path.with_suffix(".head")
        self._tail: tuple[Head, int] | None = None
        self._notes: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found and repaired, for the user."""
        return tuple(self._notes)

    def events(self) -> list[Event]:
        """Every record, in order, after checking each byte, the chain and the head.

        Raises:
            LedgerError: a record was edited, dropped, duplicated or reordered; names the line.
            StorageError: the file can't be read.
        """
        chain = self._read()
        with _named(self.path):
            return [record.event() for record in chain.records]

    def records(self) -> tuple[Record, ...]:
        """The same with the hash of each, unread.

        Raises:
            LedgerError: as `events` does.
            StorageError: the file can't be read.
        """
        return self._read().records

    def append(self, event: Event) -> None:
        """Write one record durably; if that fails, the file is as it was before.

        Raises:
            LedgerError: the ledger is broken, or another process wrote to it meanwhile.
            StorageError: the disk is full or read-only.
        """
        head, size_bytes = self._tail or self.recover()
        line, digest = seal(head.count + 1, head.hash, event)
        new_head = Head(head.count + 1, digest)
        # Unless this reaches its end, what is on disk is looked up again before the next append.
        self._tail = None
        with storage_errors("append to", self.path):
            # Staged first: most disks that are too full for the head say so here.
            staged = stage(self.head_path, new_head.encode(), durable=True)
            try:
                self._write(line, size_bytes)
                try:
                    staged.replace(self.head_path)
                except OSError:
                    os.truncate(self.path, size_bytes)
                    raise
            finally:
                discard(staged)
            sync_directory(self.path.parent)
        self._tail = (new_head, size_bytes + len(line))

    def recover(self) -> tuple[Head, int]:
        """Make the file ready for appending: a torn last line goes to `ledger.jsonl.torn-<n>`.

        Returns the head and the size of the file in bytes.

        Raises:
            LedgerError: the ledger is broken otherwise.
            StorageError: the torn line can't be moved.
        """
        chain = self._read()
        if chain.torn:
            self._set_aside(chain.torn, chain.size_bytes)
        self._tail = (chain.head, chain.size_bytes)
        return self._tail

    def _read(self) -> _Chain:
        # The head first: if another process appends in between, the chain is one ahead, as after
        # a crash; the other way round it would look as if a record were missing.
        head = self._read_head()
        with storage_errors("read", self.path):
            data = self.path.read_bytes() if self.path.exists() else b""
        with _named(self.path):
            chain = _parse(data)
            _check_head(chain, head, self.head_path.name)
        return chain

    def _read_head(self) -> Head | None:
        try:
            with storage_errors("read", self.head_path):
                text = self.head_path.read_bytes() if self.head_path.exists() else None
            if text is None:
                return None
            return Head.decode(text)
        except ValueError as error:
            raise LedgerError(f"{self.head_path} was edited: {error}", hint=_HINT) from error

    def _write(self, line: bytes, size_bytes: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o666)
        try:
            self._check_alone(os.fstat(descriptor).st_size, size_bytes)
            durable = False
            try:
                write_all(descriptor, line)
                os.fsync(descriptor)
                durable = True
            finally:
                if not durable:
                    os.ftruncate(descriptor, size_bytes)
        finally:
            os.close(descriptor)

    def _check_alone(self, found_bytes: int, expected_bytes: int) -> None:
        if found_bytes != expected_bytes:
            raise LedgerError(
                f"{self.path} has {found_bytes} bytes where {expected_bytes} were expected: "
                "another process wrote to it",
                hint="let only one roofsmith work in a campaign directory",
            )

    def _set_aside(self, torn: bytes, size_bytes: int) -> None:
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.torn-{number}")).exists():
            number += 1
        with storage_errors("move a torn line to", aside):
            replace(aside, torn, durable=True)
        with storage_errors("cut a torn line off", self.path):
            os.truncate(self.path, size_bytes)
            sync_directory(self.path.parent)
        self._notes.append(
            f"{self.path.name}: the last write never finished ({len(torn)} bytes without a line "
            f"end); moved to {aside.name}"
        )


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except LedgerError as error:
        raise LedgerError(f"{path}: {error.message}", hint=error.hint or _HINT) from error


def records_in(path: Path, data: bytes) -> tuple[Record, ...]:
    """Of a ledger's bytes that stand alone, such as a packed one's: no head tells of its end.

    Raises:
        LedgerError: a record was edited, dropped, duplicated or reordered; names the line.
    """
    with _named(path):
        return _parse(data).records


def _parse(data: bytes) -> _Chain:
    """Split a ledger into intact records and a torn rest, and check the chain."""
    *lines, torn = data.split(b"\n")
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(unseal(line))
        except BrokenLineError as error:
            raise LedgerError(f"line {number} was edited: {error}") from error
    check_chain(records)
    return _Chain(tuple(records), torn, len(data) - len(torn))


def _check_head(chain: _Chain, head: Head | None, name: str) -> None:
    count = len(chain.records)
    if head is None:
        # The crash that may come between a record and its head can only hide the first head.
        if count > 1:
            raise LedgerError(f"{name} is missing, so records at the end may be too")
        return
    if head.count > count:
        ending = "its last line was edited" if chain.torn else "records at its end are missing"
        raise LedgerError(f"{count} records, but {name} knows of {head.count}: {ending}")
    if head.count < max(count - 1, 1):
        raise LedgerError(
            f"{count} records, but {name} knows of {head.count}: records were added behind its back"
        )
    if chain.records[head.count - 1].hash != head.hash:
        raise LedgerError(
            f"record {head.count} has hash {chain.records[head.count - 1].hash[:12]}, "
            f"but {name} says {head.hash[:12]}: the chain was written anew"
        )
