"""Experiments, and their words for full-text search."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_TEXTS = (
    "pid", "time", "campaign", "ledger", "operator", "family", "backend", "device", "arch", "env",
    "dtype", "proposer", "tactic", "status", "outcome", "bucket", "bottleneck", "stall",
    "base_commit", "words", "body",
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


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "experiments",
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in _TEXTS),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("masked", sa.Boolean, nullable=False),
        sa.Column("is_folded", sa.Boolean, nullable=False),
        sa.Column("is_buggy", sa.Boolean, nullable=False),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("ci_low", sa.Float),
        sa.Column("ci_high", sa.Float),
    )
    op.create_index("experiments_family", "experiments", ["family", "backend"])
    op.create_index("experiments_campaign", "experiments", ["campaign"])
    is_file = op.get_context().dialect.name == "sqlite"
    for statement in _FTS5 if is_file else _TSVECTOR:
        op.execute(statement)
