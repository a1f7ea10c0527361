"""The table: columns to filter and rank by, and the whole experiment as JSON beside them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from roofsmith.domain.experiment import Experiment

metadata = sa.MetaData()
experiments = sa.Table(
    "experiments",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    *(
        sa.Column(name, sa.Text, nullable=False, index=name in ("family", "campaign"))
        for name in (
            "pid", "time", "campaign", "ledger", "operator", "family", "backend", "device", "arch",
            "env", "dtype", "proposer", "tactic", "status", "outcome", "bucket", "bottleneck",
            "stall", "base_commit",
        )
    ),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("masked", sa.Boolean, nullable=False),
    sa.Column("is_buggy", sa.Boolean, nullable=False),
    sa.Column("score", sa.Float, nullable=False),
    sa.Column("ci_low", sa.Float),
    sa.Column("ci_high", sa.Float),
    sa.Column("body", sa.Text, nullable=False),
)  # fmt: skip


def row_of(one: Experiment) -> dict[str, Any]:
    """The columns of an experiment."""
    low, high = one.interval or (None, None)
    return {
        "id": one.id, "pid": one.pid or "", "time": one.time, "campaign": one.campaign,
        "ledger": one.ledger, "operator": one.operator_sig, "family": one.family or "",
        "backend": one.backend, "device": one.device, "arch": one.arch, "env": one.env,
        "dtype": one.dtype_sig, "proposer": one.proposer,
        "tactic": one.hypothesis.tactic if one.hypothesis is not None else "",
        "status": one.status, "outcome": one.outcome, "bucket": one.bucket,
        "bottleneck": one.bottleneck.kind if one.bottleneck is not None else "",
        "stall": one.stall, "base_commit": one.base_commit, "round": one.round,
        "masked": one.masked, "is_buggy": one.is_buggy, "score": one.score,
        "ci_low": low, "ci_high": high, "body": one.model_dump_json(exclude_unset=True),
    }  # fmt: skip


def upgrade(engine: sa.Engine) -> None:
    """Make the tables."""
    metadata.create_all(engine)
