"""The experiments of all campaigns, in an SQLite file or on a PostgreSQL server."""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy.dialects import sqlite

from roofsmith.domain.category import TRANSFERRING
from roofsmith.domain.experiment import Experiment, Revision
from roofsmith.errors import StorageError, UnknownNameError, UsageError
from roofsmith.experience.hearsay import validated, written_out
from roofsmith.experience.recovery import is_broken, set_aside
from roofsmith.experience.schema import experiments, is_current, migrate, row_of

Found = TypeVar("Found")

_LOCKED_S: Final = 5
"""How long a writer waits for another one; each holds the file for milliseconds."""
_ANSWER_S: Final = 3
"""How long a server may take to answer: a campaign's round waits for it."""
_MOST_WORDS: Final = 32
_TIP: Final = "tip"
_DRIVERS: Final = {"postgres": "postgresql+psycopg", "postgresql": "postgresql+psycopg"}


@dataclass(frozen=True, slots=True)
class Query:
    """What experiments must match; None: anything.

    `op`, `dtype`, `env` and `chip` match in part, whatever their case; a base commit by how it
    begins.
    """

    op: str | None = None
    dtype: str | None = None
    env: str | None = None
    backend: str | None = None
    chip: str | None = None
    """Of the device's name, or its architecture."""
    base_commit: str | None = None
    status: str | None = None
    outcome: str | None = None
    bottleneck: str | None = None
    campaign: str | None = None
    masked: bool | None = None
    folded: bool | None = False
    """Those that another one stands for; None: these, too."""
    tips: bool | None = False
    """True: lessons that somebody told; None: these, too."""

    def conditions(self) -> Iterator[sa.ColumnElement[bool]]:
        """As SQL."""
        table = experiments.c
        parts = {
            "op": (table.operator, table.family), "dtype": (table.dtype,), "env": (table.env,),
            "chip": (table.device, table.arch),
        }  # fmt: skip
        exact = {"folded": table.is_folded, "tips": table.status == _TIP}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if (columns := parts.get(field.name)) is not None:
                yield sa.or_(*(one.icontains(value, autoescape=True) for one in columns))
            elif field.name == "base_commit":
                yield table.base_commit.startswith(value, autoescape=True)
            else:
                yield exact.get(field.name, table.get(field.name)) == value


class Database:
    """Everything that was tried. Each call is a transaction of its own, on its own connection.

    Every method raises StorageError where the database is locked, broken, of a newer version,
    unreachable or its disk is full.
    """

    def __init__(
        self, url: str, tell: Callable[[str], object] = str, *, only_reads: bool = False
    ) -> None:
        """Nothing is opened before it is used.

        Args:
            url: as SQLAlchemy writes it.
            tell: hears of a file that is broken, and was set aside.
            only_reads: nothing is made, brought up to date or set aside; a write is an error.

        Raises:
            UsageError: it is none, or its driver isn't installed.
        """
        self._url = _url(url)
        try:
            is_file = self._url.get_backend_name() == "sqlite"
            waits = {"timeout": _LOCKED_S, "isolation_level": None}
            answers = {} if "connect_timeout" in self._url.query else {"connect_timeout": _ANSWER_S}
            given: dict[str, Any] = {"connect_args": waits if is_file else answers}
            to_read = only_reads
            if self.path is not None and (_only_readable(self.path) or only_reads):
                how = "immutable=1" if _only_readable(self.path) else "mode=ro"
                address, to_read = f"{self.path.absolute().as_uri()}?{how}", True
                given = {"creator": partial(sqlite3.connect, address, uri=True, **waits)}
            self._engine = sa.create_engine(self._url, poolclass=sa.NullPool, **given)
            self._engine.update_execution_options(postgresql_readonly=only_reads)
        except (sa.exc.ArgumentError, ModuleNotFoundError, TypeError) as error:
            raise UsageError(
                f"{self.name} can't be opened: {error}",
                hint="a file, or postgresql://user@host/name with `pip install"
                " roofsmith[postgres]`",
            ) from error
        if is_file and not to_read:
            sa.event.listen(self._engine, "connect", _careful)
        if is_file:
            sa.event.listen(self._engine, "begin", _begin)
        self._is_ready = False
        self._hear, self._only_reads = tell, only_reads

    @property
    def name(self) -> str:
        return str(self.path or self._url.render_as_string(hide_password=True))

    @property
    def path(self) -> Path | None:
        """The file; None: it is on a server."""
        is_file = self._url.get_backend_name() == "sqlite" and self._url.database
        return Path(str(self._url.database)) if is_file else None

    def add(self, found: Iterable[Experiment], *, refresh: bool = False) -> int:
        """Store those that aren't there yet; how many those are.

        Args:
            found: without an id, they get one.
            refresh: bring masks and commits of the others to what these say.
        """
        rows = [named(one) for one in found]

        def store(connection: sa.Connection) -> int:
            return sum(_add(connection, one, refresh=refresh) for one in rows)

        return self._run(store, writes=True)

    def create(self, one: Experiment) -> Experiment:
        """Store one that must be new; as it was stored.

        Raises:
            UsageError: there is one with its id.
        """
        new = named(one)
        if self.add([new]) == 0:
            raise UsageError(f"there is an experiment {new.id}", hint="leave out its id")
        return new

    def get(self, experiment_id: str) -> Experiment:
        """By its id, or how it begins.

        Raises:
            UnknownNameError: there is none, or there are several.
        """
        begins = experiments.c.id.startswith(experiment_id, autoescape=True)
        wanted = sa.select(experiments.c.body).where(begins).limit(20)
        exact = wanted.where(experiments.c.id == experiment_id)
        found = self._read(exact) or self._read(wanted)
        if len(found) != 1:
            some = ", ".join(one.id for one in found)
            raise UnknownNameError(
                f"{'several experiments are' if found else 'no experiment is'} called"
                f" {experiment_id!r}{f': {some}' if some else ''}",
                hint="`roofsmith experience list` names them",
            )
        return found[0]

    def list(self, query: Query = Query(), most: int | None = None) -> tuple[Experiment, ...]:
        """What matches, the oldest first; the newest `most` of it."""
        newest = sa.desc(experiments.c.time), sa.desc(experiments.c.seq)
        wanted = sa.select(experiments.c.body).where(*query.conditions()).order_by(*newest)
        return self._read(wanted.limit(most))[::-1]

    def top(self, most: int, query: Query = Query()) -> tuple[Experiment, ...]:
        """Correct ones of the highest score, nothing masked or over-fit: successes first, by the
        lower end of an interval where there is one."""
        proven = sa.func.coalesce(experiments.c.ci_low, experiments.c.score)
        best = sa.desc(experiments.c.outcome == "success"), sa.desc(proven)
        sound = (
            experiments.c.is_buggy == sa.false(),
            experiments.c.masked == sa.false(),
            experiments.c.bucket.in_(TRANSFERRING),
            experiments.c.score > 0,
        )
        wanted = sa.select(experiments.c.body).where(*query.conditions(), *sound)
        return self._read(wanted.order_by(*best, experiments.c.seq).limit(most))

    def search(self, text: str, most: int) -> tuple[Experiment, ...]:
        """Those with all of the words, or words that begin so, in what they say; best first."""
        words = re.findall(r"[^\W_]+", text)[:_MOST_WORDS]
        if not words:
            return ()
        is_file = self._engine.dialect.name == "sqlite"
        if is_file:
            query = " ".join(f'"{word}"*' for word in words)
            found = "seq IN (SELECT rowid FROM experiments_words WHERE words MATCH :query)"
            rank = "(SELECT rank FROM experiments_words WHERE words MATCH :query AND rowid = seq)"
        else:
            query = " & ".join(f"{word}:*" for word in words)
            found = "search @@ to_tsquery('simple', :query)"
            rank = "ts_rank(search, to_tsquery('simple', :query)) DESC"
        wanted = sa.select(experiments.c.body).where(
            sa.text(found).bindparams(query=query), experiments.c.is_folded == sa.false()
        )
        return self._read(wanted.order_by(sa.text(rank).bindparams(query=query)).limit(most))

    def update(self, experiment_id: str, changes: Mapping[str, Any], reason: str) -> Experiment:
        """Change fields of one; what they were, and why, is kept with it.

        Raises:
            UnknownNameError: there is none.
            UsageError: a field isn't known or can't have that value.
        """
        one = self.get(experiment_id)
        return self._run(lambda c: _revise(c, one.id, changes, reason), writes=True)

    def fold(self, groups: Iterable[tuple[Experiment, Sequence[Experiment]]]) -> int:
        """Have the first of each group stand for the others, which stay; how many those are."""
        pairs = [(stays, gone.id) for stays, others in groups for gone in others]

        def change(connection: sa.Connection) -> None:
            for stays, gone in pairs:
                _revise(connection, gone, merged_into(stays), same_as(stays))

        self._run(change, writes=True)
        return len(pairs)

    def _read(self, wanted: sa.Select[Any]) -> tuple[Experiment, ...]:
        bodies = self._run(lambda connection: connection.execute(wanted).scalars().all())
        found = tuple(one for one in map(_experiment, bodies) if one is not None)
        if len(found) < len(bodies):
            self._tell(f"{len(bodies) - len(found)} experiments are of another roofsmith: left out")
        return found

    def _run(self, work: Callable[[sa.Connection], Found], *, writes: bool = False) -> Found:
        """In a transaction; once more on a new file where one is broken."""
        try:
            return self._transaction(work, writes)
        except (sa.exc.SQLAlchemyError, OSError) as error:
            self._is_ready = False  # somebody may have taken the file away
            if self.path is None or self._only_reads or not is_broken(error):
                raise self._trouble(error) from error
            try:
                self._tell(set_aside(self.path))
                return self._transaction(work, writes)
            except (sa.exc.SQLAlchemyError, OSError) as again:
                raise self._trouble(again) from again

    def _transaction(self, work: Callable[[sa.Connection], Found], writes: bool) -> Found:
        if not self._is_ready:
            self._prepare()
        with self._engine.execution_options(writes=writes).begin() as connection:
            return work(connection)

    def _prepare(self) -> None:
        if self.path is not None and not self._only_reads:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._engine.begin() as connection:
            current = is_current(connection)
        if not current and self._only_reads:
            raise StorageError(
                f"the experiments in {self.name} are of an older roofsmith",
                hint="`roofsmith experience list` brings them up to date",
            )
        if not current:
            with self._engine.execution_options(writes=True).begin() as connection:
                migrate(connection)
        self._is_ready = True

    def _tell(self, what: str | None) -> None:
        if what is not None:
            self._hear(what)

    def _trouble(self, error: Exception) -> StorageError:
        cause = getattr(error, "orig", None) or error
        first = str(cause).strip().splitlines() or [type(cause).__name__]
        told = f"the experiments in {self.name}"
        if self.path is not None and (isinstance(cause, OSError) or "unable to open" in first[0]):
            why = f"no file can be made there{_obstacle(self.path)}"
            hint = "let $ROOFSMITH_EXPERIENCE name a file in a folder that you may write to"
            return StorageError(f"{told}: {why}", hint=hint)
        hint = "see that it can be reached and written; $ROOFSMITH_EXPERIENCE names another one"
        return StorageError(f"{told}: {first[0]}", hint=hint)


def _obstacle(path: Path) -> str:
    try:
        if path.is_dir():
            return ", it is a folder"
        there = next(folder for folder in path.parents if folder.exists())
        if not there.is_dir():
            return f", {there} is no folder"
    except PermissionError:
        return ", as its folder may not be entered"
    return f", as nothing may be written in {there}"


def _url(url: str) -> sa.URL:
    try:
        found = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise UsageError(
            f"{url.partition('://')[0]}://… is no URL of a database",
            hint="such as sqlite:////folder/experience.db or postgresql://user@host/name",
        ) from error
    return found.set(drivername=_DRIVERS.get(found.drivername, found.drivername))


def _only_readable(path: Path) -> bool:
    """Whether nobody can write beside a file that is whole, as where another user keeps it."""
    beside = path.with_name(f"{path.name}-wal")
    try:
        return path.is_file() and not os.access(path.parent, os.W_OK) and not beside.exists()
    except PermissionError:  # of the folder, which may not be entered
        return False


def _careful(connection: Any, _record: object) -> None:
    """Readers beside a writer; what was acknowledged outlives a power cut."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def _begin(connection: sa.Connection) -> None:
    """Who will write takes the lock at once: one that reads first couldn't wait for it later."""
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def merged_into(stays: Experiment) -> dict[str, str]:
    """What changes of a row that another one stands for."""
    return {"merged_into": stays.id}


def same_as(stays: Experiment) -> str:
    """Why it does."""
    return f"tells the same as {stays.id}"


def named(one: Experiment) -> Experiment:
    """With an id and a time."""
    given = {"id": one.id or secrets.token_hex(6), "time": one.time or now()}
    return one.model_copy(update=given)


def now() -> str:
    """UTC, `YYYY-MM-DD HH:MM:SS`."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"


def _held(connection: sa.Connection, experiment_id: str) -> Experiment | None:
    """One that is there, while nobody else changes it; None: this version can't read it."""
    wanted = sa.select(experiments.c.body).where(experiments.c.id == experiment_id)
    return _experiment(connection.execute(wanted.with_for_update()).scalar_one())


def _experiment(body: str) -> Experiment | None:
    try:
        return Experiment.model_validate_json(body)
    except ValidationError:
        return None


def _add(connection: sa.Connection, one: Experiment, *, refresh: bool) -> bool:
    statement = _new_row(connection, one)
    if connection.execute(statement.returning(experiments.c.id)).first() is not None:
        return True
    if refresh and (old := _held(connection, one.id)) is not None:
        told = {"masked": one.masked, "masked_because": one.masked_because, "commit": one.commit}
        if any(getattr(old, name) != value for name, value in told.items()):
            _replace(connection, old.model_copy(update=told))
    return False


def _new_row(connection: sa.Connection, one: Experiment) -> sa.Insert:
    """Adds one, unless there is one with its id."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql  # brings asyncio along

        return postgresql.insert(experiments).values(row_of(one)).on_conflict_do_nothing()
    return sqlite.insert(experiments).values(row_of(one)).on_conflict_do_nothing()


def _replace(connection: sa.Connection, one: Experiment) -> None:
    changed = experiments.update().where(experiments.c.id == one.id)
    connection.execute(changed.values(row_of(one)))


def _revise(
    connection: sa.Connection, experiment_id: str, changes: Mapping[str, Any], reason: str
) -> Experiment:
    if (old := _held(connection, experiment_id)) is None:
        raise UsageError(f"experiment {experiment_id} is of another version of roofsmith")
    new = revised(old, changes, reason)
    if new.revisions != old.revisions:
        _replace(connection, new)
    return new


def revised(old: Experiment, changes: Mapping[str, Any], reason: str) -> Experiment:
    """With other fields; what they were, and why, is kept with it.

    Raises:
        UsageError: a field isn't known or can't have that value.
    """
    before = old.model_dump(mode="json")
    fixed = {"id", "revisions"} & changes.keys()
    if unknown := fixed | (changes.keys() - before.keys()):
        raise UsageError(
            f"no such field can be changed: {', '.join(sorted(unknown))}",
            hint="`roofsmith experience show ID --json` names those of an experiment",
        )
    told = {**old.model_dump(), **written_out(changes)}
    if "outcome" not in changes and {"score", "interval", "is_buggy"} & changes.keys():
        told["outcome"] = None
    new = validated(told)
    after = new.model_dump(mode="json")
    at = now()
    revisions = tuple(
        Revision(field=name, old=before[name], new=after[name], reason=reason, at=at)
        for name in after
        if before[name] != after[name]
    )
    return new.model_copy(update={"revisions": (*old.revisions, *revisions)})
