"""The folder of an ask: what a proposer outside is given, and where it leaves its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from roofsmith.domain.answer import Answer
from roofsmith.domain.comparison import Judgement
from roofsmith.store.files import storage_errors, write_file


def evidence_asked(
    directory: Path, round_: int | None = None, but: int | None = None
) -> dict[str, str]:
    """Id to text of the evidence in a brief that a campaign gave; empty where there is none.

    Args:
        round_: that it asked for; None: the last.
        but: a round whose brief doesn't count.
    """
    rounds = sorted(
        int(found.parent.name.removeprefix("round-"))
        for found in directory.glob("asks/round-*/brief.json")
        if found.parent.name.removeprefix("round-").isdecimal()
        and found.parent.name != f"round-{but}"
    )
    if not rounds or (round_ is not None and round_ not in rounds):
        return {}
    path = directory / "asks" / f"round-{round_ or rounds[-1]}" / "brief.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["evidence"]
        return {str(id_): str(text) for id_, text in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # whoever answers may write there


def write_ask(
    folder: Path, found: Mapping[str, Any], markdown: str, references: Mapping[str, str]
) -> None:
    """What a proposer is given: brief.md, brief.json, schema.json, sources/, reference/.

    Where a repair is due, `repair/` holds the wrong kernel's files, and `bases/round-N/` those of
    an undecided round that may be built on. Sources are whole, whatever the page has room for.

    Raises:
        StorageError: it can't be written.
    """
    wrong = found.get("repair") or {}
    files = {
        "brief.md": markdown,
        "brief.json": json.dumps(found, indent=2, ensure_ascii=False) + "\n",
        "schema.json": json.dumps(Answer.model_json_schema(), indent=2) + "\n",
        **{f"sources/{path}": text for path, text in found["kernel"]["files"].items()},
        **{f"reference/{path}": text for path, text in references.items()},
        **{f"repair/{path}": text for path, text in wrong.get("files", {}).items()},
        **{
            f"bases/round-{base['round']}/{path}": text
            for base in found["bases"]
            for path, text in base["files"].items()
        },
    }
    for name, text in files.items():
        write_file(folder / name, text.encode("utf-8", errors="backslashreplace"))


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
