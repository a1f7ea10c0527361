"""The ledger's line format: a record, its place in the chain, and what is wrong with a broken one.

A line is compact JSON in a fixed key order, and its hash covers every byte before the hash itself:

    {"seq":3,"previous":"<hash of record 2>","event":{...},"hash":"<SHA-256 of the rest>"}

The event keeps the key order it was written in instead of being sorted, because the order of a
workload's dimensions is part of its label.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from roofsmith.domain.campaign import Event
from roofsmith.errors import LedgerError

GENESIS = "0" * 64
"""What the first record names as the hash of its predecessor."""

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
_SEAL = re.compile(rb',"hash":"([0-9a-f]{64})"}\Z')


@dataclass(frozen=True, slots=True)
class Record:
    seq: int
    """1-based, the line it stands on."""
    previous: str
    payload: dict[str, Any]
    hash: str

    def event(self) -> Event:
        """The event this record holds.

        Raises:
            LedgerError: the record is intact, but no event that this version knows.
        """
        try:
            return _EVENT.validate_python(self.payload, strict=False)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise LedgerError(
                f"line {self.seq} is intact but isn't an event: {where}: {first['msg']}",
                hint="the ledger may come from another version of roofsmith; use that one",
            ) from error


class BrokenLineError(ValueError):
    """A line that isn't a sealed record; the text says how it differs from one."""


def seal(seq: int, previous: str, event: Event) -> tuple[bytes, str]:
    """The line of a new record, newline included, and its hash."""
    record = {"seq": seq, "previous": previous, "event": event.model_dump(mode="json")}
    body = json.dumps(record, separators=(",", ":"), allow_nan=False).encode("ascii")
    digest = hashlib.sha256(body).hexdigest()
    return body[:-1] + f',"hash":"{digest}"}}\n'.encode("ascii"), digest


def unseal(line: bytes) -> Record:
    """Read one line, newline excluded, and check it against its own hash.

    Raises:
        BrokenLineError: any byte differs from what was written.
    """
    found = _SEAL.search(line)
    if found is None:
        raise BrokenLineError('it does not end in its hash (`,"hash":"<64 hex digits>"}`)')
    body = line[: found.start()] + b"}"
    stated, actual = found[1].decode("ascii"), hashlib.sha256(body).hexdigest()
    if stated != actual:
        shown = 12 if stated[:12] != actual[:12] else None
        raise BrokenLineError(
            f"its content hashes to {actual[:shown]}, its seal says {stated[:shown]}"
        )
    try:
        record = json.loads(line)
    except ValueError as error:
        raise BrokenLineError(f"it is sealed but isn't JSON: {error}") from error
    match record:
        case {"seq": int(seq), "previous": str(previous), "event": dict(event)}:
            return Record(seq, previous, event, stated)
        case _:
            raise BrokenLineError("it is sealed but holds no seq, previous and event")


def check_chain(records: Sequence[Record]) -> None:
    """Check that intact records stand in the order in which they were written.

    Raises:
        LedgerError: names the first line out of place: dropped, duplicated, reordered, replaced.
    """
    previous = GENESIS
    for line, record in enumerate(records, start=1):
        if record.seq != line:
            raise LedgerError(f"line {line}: {_misplaced(line, record.seq, records)}")
        if record.previous != previous:
            raise LedgerError(
                f"line {line} doesn't follow line {line - 1}: it was written after a record with "
                f"hash {record.previous[:12]}, but the one before it has {previous[:12]}; "
                "one of the two was replaced"
            )
        previous = record.hash


def _misplaced(line: int, seq: int, records: Sequence[Record]) -> str:
    if any(other.seq == seq for other in records[: line - 1]):
        return f"record {seq} stands here again (duplicated)"
    if any(other.seq == line for other in records[line:]):
        return f"record {seq} stands where record {line} should, which comes later (reordered)"
    missing = f"record {line} is" if seq == line + 1 else f"records {line} to {seq - 1} are"
    return f"{missing} missing; record {seq} stands here (dropped)"
