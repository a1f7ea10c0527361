"""The table: columns to filter and rank by, and the whole experiment as JSON beside them."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from roofsmith.domain.experiment import LONGEST_TEXT, Experiment
from roofsmith.errors import StorageError
from roofsmith.wording import printable

HEAD: Final = "0001"
"""Of the tables below; a change of these is a step in `migrate` more, and a new number."""
_ONE_AT_A_TIME = 0x726F6F66
"""Of PostgreSQL's advisory locks: only one process migrates."""

_TABLES = sa.MetaData()
_VERSION = sa.Table(
    "alembic_version", _TABLES, sa.Column("version_num", sa.String(32), primary_key=True)
)
"""Of alembic, which made the first databases."""
experiments = sa.Table(
    "experiments",
    _TABLES,
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    *(
        sa.Column(name, sa.Text, nullable=False)
        for name in (
            "pid", "time", "campaign", "ledger", "operator", "family", "backend", "device", "arch",
            "env", "dtype", "proposer", "tactic", "status", "outcome", "bucket", "bottleneck",
            "stall", "base_commit", "words", "body",
        )
    ),
    sa.Column("round", sa.Integer, nullable=False),
    *(sa.Column(name, sa.Boolean, nullable=False) for name in ("masked", "is_folded", "is_buggy")),
    sa.Column("score", sa.Float, nullable=False),
    *(sa.Column(name, sa.Float) for name in ("ci_low", "ci_high")),
    sa.Index("experiments_family", "family", "backend"),
    sa.Index("experiments_campaign", "campaign"),
)  # fmt: skip
_FTS5 = (
    "CREATE VIRTUAL TABLE experiments_words USING"
    " fts5(words, content='experiments', content_rowid='seq')",
    "CREATE TRIGGER words_added AFTER INSERT ON experiments BEGIN"
    " INSERT INTO experiments_words(rowid, words) VALUES (new.seq, new.words); END",
    "CREATE TRIGGER words_gone AFTER DELETE ON experiments BEGIN"
    " INSERT INTO experiments_words(experiments_words, rowid, words)"
    " VALUES ('delete', old.seq, old.words); END",
    "CREATE TRIGGER words_changed AFTER UPDATE OF words ON experiments BEGIN"
    " INSERT INTO experiments_words(experiments_words, rowid, words)"
    " VALUES ('delete', old.seq, old.words);"
    " INSERT INTO experiments_words(rowid, words) VALUES (new.seq, new.words); END",
)
_TSVECTOR = (
    "ALTER TABLE experiments ADD COLUMN search tsvector"
    " GENERATED ALWAYS AS (to_tsvector('simple', words)) STORED",
    "CREATE INDEX experiments_search ON experiments USING gin (search)",
)


def row_of(one: Experiment) -> dict[str, Any]:
    low, high = one.interval or (None, None)
    hypothesis, bottleneck = one.hypothesis, one.bottleneck
    return {
        "id": one.id, "pid": one.pid or "", "time": one.time, "campaign": one.campaign,
        "ledger": one.ledger, "operator": one.operator_sig, "family": one.family or "",
        "backend": one.backend, "device": one.device, "arch": one.arch, "env": one.env,
        "dtype": one.dtype_sig, "proposer": one.proposer,
        "tactic": printable(hypothesis.tactic) if hypothesis is not None else "",
        "status": one.status, "outcome": one.outcome, "bucket": one.bucket,
        "bottleneck": bottleneck.kind if bottleneck is not None else "",
        "stall": one.stall, "base_commit": one.base_commit, "round": one.round,
        "masked": one.masked, "is_folded": one.merged_into is not None, "is_buggy": one.is_buggy,
        "score": one.score, "ci_low": low, "ci_high": high, "words": _words(one),
        "body": one.model_dump_json(exclude_unset=True),
    }  # fmt: skip


def _words(one: Experiment) -> str:
    """What full-text search looks through; a tsvector holds a megabyte."""
    tip = one.tip.model_dump().values() if one.tip is not None else ()
    texts = (
        one.change_summary, one.operator_sig, *tip, one.detailed_description, *one.notes,
        one.error_message, one.profiling_info, one.diff,
    )  # fmt: skip
    return "\n".join(texts)[:LONGEST_TEXT]


def is_current(connection: sa.Connection) -> bool:
    """Whether the tables are those of this version; False: they are older, or not there.

    Raises:
        StorageError: they are newer.
    """
    if not sa.inspect(connection).has_table(_VERSION.name):
        return False
    found = connection.execute(sa.select(_VERSION.c.version_num)).scalar()
    if found is not None and found > HEAD:
        url = connection.engine.url
        name = url.database if url.get_backend_name() == "sqlite" else url.render_as_string()
        raise StorageError(
            f"the experiments in {name} have schema {found}, and this roofsmith knows up to {HEAD}",
            hint="use the newer roofsmith that wrote them, or another $ROOFSMITH_EXPERIENCE",
        )
    return found == HEAD


def migrate(connection: sa.Connection) -> None:
    """Make the tables, if they aren't there; in the caller's transaction."""
    is_server = connection.dialect.name == "postgresql"
    if is_server:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ONE_AT_A_TIME)))
    if is_current(connection):
        return
    _TABLES.create_all(connection)
    for statement in _TSVECTOR if is_server else _FTS5:
        connection.exec_driver_sql(statement)
    connection.execute(_VERSION.insert().values(version_num=HEAD))
