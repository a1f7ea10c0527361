"""The log of looks: what was tried before a round, and what that took."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from roofsmith.domain.comparison import Judgement
from roofsmith.store.files import storage_errors

LOG = "logs/looks.jsonl"


def keep_look(directory: Path, candidate_id: str, seen: Judgement) -> None:
    """Add a line: a look is no record, but what it took of the machine isn't hidden.

    Raises:
        StorageError: it can't be written.
    """
    ratio = None if seen.comparison is None else seen.comparison.overall
    line = {
        "at": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
        "candidate": candidate_id,
        "outcome": seen.outcome.kind,
        "speedup": None if ratio is None else ratio.speedup,
        "ci": None if ratio is None else ratio.ci,
        "wall_s": round(seen.wall_s, 3),
    }
    path = directory / LOG
    with storage_errors("write", path):
        path.parent.mkdir(exist_ok=True)
        with path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
