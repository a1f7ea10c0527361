"""Where experiments are left: the database, or a spool while that can't take them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from roofsmith.domain.experiment import Experiment
from roofsmith.domain.values import Value
from roofsmith.errors import StorageError, UsageError
from roofsmith.experience.database import Database, merged_into, named, revised, same_as
from roofsmith.experience.recovery import locked


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
            self.wait([*rows.values()], error)
            self._left |= rows
            raise StorageError(
                f"{error.message}; what is new waits in {self.spool}", hint=error.hint
            ) from error

    def land(self, rows: Sequence[Experiment] = (), *, waits: bool = True) -> int:
        """Store what waits, then these; how many were new.

        Args:
            rows: to be stored.
            waits: for another process that is about to store what waits.

        Raises:
            BlockingIOError: there is one, and nobody waits for it.
            StorageError: the database can't take them.
        """
        if not self.spool.exists():
            return self.database.add(rows, refresh=True) if rows else 0
        try:
            return self._land(rows, waits=waits)
        except BlockingIOError:
            raise
        except OSError as error:
            raise StorageError(
                f"what waits in {self.spool} can't be taken up: {error.strerror or error}",
                hint="where it lies on a file system without locks: `roofsmith experience import"
                f" {self.spool}`, then move it away",
            ) from error

    def _land(self, rows: Sequence[Experiment], *, waits: bool) -> int:
        """The same where something waits; raises an OSError if the spool can't be locked, since
        what others add to it meanwhile would be lost."""
        with locked(self.spool, waits=waits) as spool:
            waiting = [*_waiting(spool)]
            waited = [one for one in waiting if isinstance(one, Experiment)]
            new = self.database.add([*waited, *rows], refresh=True)
            for one in waiting:
                if isinstance(one, Amendment):
                    with suppress(UsageError):  # who took it away meanwhile wants no change of it
                        self.database.update(one.revises, one.changes, one.reason)
            spool.truncate(0)
            with suppress(OSError):  # under the lock: whoever waits for it begins another file
                self.spool.unlink()
        return new

    def wait(self, rows: Iterable[Experiment | Amendment], why: StorageError) -> None:
        """Have them wait in the spool.

        Raises:
            StorageError: they can't, either.
        """
        lines = "".join(f"{one.model_dump_json(exclude_unset=True)}\n" for one in rows)
        try:
            self.spool.parent.mkdir(parents=True, exist_ok=True)
            with locked(self.spool, must=False) as spool:
                spool.seek(0, os.SEEK_END)
                spool.write(f"\n{lines}".encode())
                spool.flush()
                os.fsync(spool.fileno())
        except OSError as error:
            raise StorageError(
                f"{why.message}; nor can they wait in {self.spool}: {error.strerror or error}",
                hint="say it again later; a campaign's ledger has its rounds: `roofsmith"
                " experience import DIR`",
            ) from error


class Amendment(Value):
    """Of a row that is there, until the database can take it."""

    revises: str
    changes: dict[str, Any]
    reason: str


class SpooledDatabase(Database):
    """The database as commands write to it: what it can't take now waits, as campaigns' rounds do.

    Args:
        url: as SQLAlchemy writes it.
        spool: what waits.
        tell: hears that something waits, and what was set aside.
    """

    def __init__(self, url: str, spool: Path, tell: Callable[[str], object] = str) -> None:
        super().__init__(url, tell)
        self._inbox, self._say = Inbox(Database(url, tell), spool), tell

    def take_up(self) -> None:
        """Store what waits, if that can be now and nobody else is about to."""
        try:
            self._inbox.land(waits=False)
        except StorageError as error:
            self._say(f"{error.message}; something waits in {self._inbox.spool}")
        except BlockingIOError:
            pass

    def add(self, found: Iterable[Experiment], *, refresh: bool = False) -> int:
        """Store those that aren't there yet; how many those are, or wait."""
        rows = [named(one) for one in found]
        try:
            return super().add(rows, refresh=refresh)
        except StorageError as error:
            self._wait(rows, error)
            return len(rows)

    def update(self, experiment_id: str, changes: Mapping[str, Any], reason: str) -> Experiment:
        """Change fields of one, now or later."""
        one = self.get(experiment_id)
        try:
            return super().update(one.id, changes, reason)
        except StorageError as error:
            new = revised(one, changes, reason)
            self._wait([Amendment(revises=one.id, changes=dict(changes), reason=reason)], error)
            return new

    def fold(self, groups: Iterable[tuple[Experiment, Sequence[Experiment]]]) -> int:
        """Have the first of each group stand for the others, now or later."""
        pairs = [(stays, tuple(others)) for stays, others in groups]
        try:
            return super().fold(pairs)
        except StorageError as error:
            changes = [
                Amendment(revises=gone.id, changes=merged_into(stays), reason=same_as(stays))
                for stays, others in pairs
                for gone in others
            ]
            self._wait(changes, error)
            return len(changes)

    def _wait(self, rows: Sequence[Experiment | Amendment], why: StorageError) -> None:
        self._inbox.wait(rows, why)
        self._say(f"{why.message}; what is new waits in {self._inbox.spool}")


def _waiting(lines: Iterable[bytes]) -> Iterator[Experiment | Amendment]:
    """What lines of a spool say; one that was never finished is passed over."""
    for line in lines:
        for kind in (Amendment, Experiment):
            try:
                yield kind.model_validate_json(line)
                break
            except ValidationError:
                continue
