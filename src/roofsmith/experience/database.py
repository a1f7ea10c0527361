"""The experiments of all campaigns, in an SQLite file or on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa

from roofsmith.domain.experiment import Experiment
from roofsmith.experience.schema import experiments, row_of, upgrade


@dataclass(frozen=True, slots=True)
class Query:
    """What experiments must match; None: anything. Texts match in part, whatever their case."""

    op: str | None = None
    dtype: str | None = None
    env: str | None = None
    backend: str | None = None
    chip: str | None = None
    """Of the device's name, or its architecture."""
    base_commit: str | None = None
    """Its beginning."""
    status: str | None = None
    outcome: str | None = None
    bottleneck: str | None = None
    campaign: str | None = None
    masked: bool | None = None

    def conditions(self) -> Iterator[sa.ColumnElement[bool]]:
        """As SQL."""
        table = experiments.c
        parts = {
            "op": (table.operator, table.family), "dtype": (table.dtype,), "env": (table.env,),
            "chip": (table.device, table.arch),
        }  # fmt: skip
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if (columns := parts.get(field.name)) is not None:
                yield sa.or_(*(one.icontains(value, autoescape=True) for one in columns))
            elif field.name == "base_commit":
                yield table.base_commit.startswith(value, autoescape=True)
            else:
                yield table[field.name] == value


class Database:
    """Everything that was tried. Each call is a transaction of its own."""

    def __init__(self, url: str) -> None:
        """`url` as SQLAlchemy writes it; tables are made, or brought up to date."""
        self._engine = sa.create_engine(url)
        if self._engine.dialect.name == "sqlite":
            sa.event.listen(self._engine, "connect", _careful)
        upgrade(self._engine)

    def add(self, found: Iterable[Experiment]) -> int:
        """Store those that aren't there yet, and whether those that are there are masked.

        Returns how many are new.
        """
        new = 0
        with self._engine.begin() as connection:
            for one in found:
                new += self._add(connection, one)
        return new

    def get(self, experiment_id: str) -> Experiment | None:
        """By its id; None: there is none."""
        wanted = sa.select(experiments.c.body).where(experiments.c.id == experiment_id)
        with self._engine.connect() as connection:
            body = connection.execute(wanted).scalar()
        return None if body is None else Experiment.model_validate_json(body)

    def list(self, query: Query = Query()) -> tuple[Experiment, ...]:
        """What matches, the oldest first."""
        wanted = (
            sa.select(experiments.c.body)
            .where(*query.conditions())
            .order_by(experiments.c.time, experiments.c.id)
        )
        with self._engine.connect() as connection:
            bodies = connection.execute(wanted).scalars().all()
        return tuple(map(Experiment.model_validate_json, bodies))

    def _add(self, connection: sa.Connection, one: Experiment) -> bool:
        known = connection.execute(
            sa.select(experiments.c.body).where(experiments.c.id == one.id)
        ).scalar()
        if known is None:
            connection.execute(experiments.insert().values(row_of(one)))
            return True
        old = Experiment.model_validate_json(known)
        told = {"masked": one.masked, "masked_because": one.masked_because, "commit": one.commit}
        new = old.model_copy(update=told)
        if new != old:
            changed = experiments.update().where(experiments.c.id == one.id)
            connection.execute(changed.values(row_of(new)))
        return False


def _careful(connection: Any, _record: object) -> None:
    """Readers beside a writer; a commit that was acknowledged outlives a power cut."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA busy_timeout=5000")
