"""Where campaigns leave experiments: the database, or a spool while that can't take them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from roofsmith.domain.experiment import Experiment
from roofsmith.errors import StorageError
from roofsmith.experience.database import Database
from roofsmith.experience.locked import locked


class Inbox:
    """Takes each experiment once, as long as this process lives only where something changed."""

    def __init__(self, database: Database, spool: Path) -> None:
        """`spool` is a JSONL file of what waits; it is made when something has to."""
        self.database = database
        self.spool = spool
        self._left: dict[str, Experiment] = {}

    def leave(self, found: Iterable[Experiment]) -> None:
        """Store them, and what waits.

        Raises:
            StorageError: the database can't take them; the message says where they wait.
        """
        rows = {one.id: one for one in found if self._left.get(one.id) != one}
        try:
            self.land([*rows.values()])
            self._left |= rows
        except StorageError as error:
            self._wait([*rows.values()], error)
            self._left |= rows
            raise StorageError(
                f"{error.message}; what is new waits in {self.spool}", hint=error.hint
            ) from error

    def land(self, rows: Sequence[Experiment] = ()) -> int:
        """Store what waits, then these; how many were new.

        Raises:
            StorageError: the database can't take them.
        """
        if not self.spool.exists():
            return self.database.add(rows, refresh=True) if rows else 0
        with locked(self.spool) as spool:
            new = self.database.add([*experiments_in(spool), *rows], refresh=True)
            spool.truncate(0)
            with suppress(OSError):  # under the lock: whoever waits for it begins another file
                self.spool.unlink()
        return new

    def _wait(self, rows: Sequence[Experiment], why: StorageError) -> None:
        lines = "".join(f"{one.model_dump_json(exclude_unset=True)}\n" for one in rows)
        try:
            self.spool.parent.mkdir(parents=True, exist_ok=True)
            with locked(self.spool) as spool:
                spool.seek(0, os.SEEK_END)
                spool.write(f"\n{lines}".encode())
                spool.flush()
                os.fsync(spool.fileno())
        except OSError as error:
            raise StorageError(
                f"{why.message}; nor can they wait in {self.spool}: {error.strerror or error}",
                hint="the campaign's ledger has them: `roofsmith experience import DIR` later",
            ) from error


def experiments_in(lines: Iterable[bytes]) -> Iterator[Experiment]:
    """Those of a JSONL file; a line that was never finished is passed over."""
    for line in lines:
        with suppress(ValidationError):
            yield Experiment.model_validate_json(line)
