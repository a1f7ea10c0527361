"""The table: columns to filter and rank by, and the whole experiment as JSON beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from roofsmith.domain.experiment import LONGEST_TEXT, Experiment
from roofsmith.domain.values import printable
from roofsmith.errors import StorageError

HEAD: Final = "0001"
"""The last of `migrations/versions`."""
_VERSION = sa.table("alembic_version", sa.column("version_num", sa.Text))
_ONE_AT_A_TIME = 0x726F6F66
"""Of PostgreSQL's advisory locks: only one process migrates."""

experiments = sa.table(
    "experiments",
    *(
        sa.column(name, sa.Text)
        for name in (
            "id", "pid", "time", "campaign", "ledger", "operator", "family", "backend", "device",
            "arch", "env", "dtype", "proposer", "tactic", "status", "outcome", "bucket",
            "bottleneck", "stall", "base_commit", "words", "body",
        )
    ),
    sa.column("seq", sa.Integer),
    sa.column("round", sa.Integer),
    *(sa.column(name, sa.Boolean) for name in ("masked", "is_folded", "is_buggy")),
    *(sa.column(name, sa.Float) for name in ("score", "ci_low", "ci_high")),
)  # fmt: skip


def row_of(one: Experiment) -> dict[str, Any]:
    """The columns of an experiment."""
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
    """Bring the tables up to date, or make them; in the caller's transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ONE_AT_A_TIME)))
    if is_current(connection):
        return
    from alembic import command
    from alembic.config import Config

    here, config = Path(__file__).parent / "migrations", Config()
    config.set_main_option("script_location", str(here).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
