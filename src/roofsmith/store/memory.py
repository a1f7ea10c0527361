"""Rendered files that readers may write in: memory notes have a mask, and logs only grow."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from roofsmith.domain.memory import Memory
from roofsmith.store.files import storage_errors

SCHEMA = Path(__file__).with_name("memory.schema.json")
"""The JSON Schema of a note, for readers that aren't this program; `make docs` writes it."""
CORRECTION: Final = b"""

---

Correction: what stands above was edited, or written by another version of roofsmith. What the
ledger says follows, from the beginning.

"""
_NOTE = re.compile(r"memory/v(\d+)\.json")
_FLAGS = ("masked", "masked_because")


def schema() -> dict[str, Any]:
    """What `SCHEMA` holds."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | Memory.model_json_schema()


def beside_readers(relative: str, rendered: bytes, found: bytes | None) -> bytes:
    """The new content of a rendered file: a note keeps a reader's mask, a log what it ever held.

    Args:
        relative: the file's path in the campaign directory.
        rendered: what the ledger says.
        found: its content now; None if it isn't there.
    """
    if found is None:
        return rendered
    if relative.startswith("logs/") and relative.endswith(".md"):
        return appended(rendered, found)
    return _with_readers_mask(rendered, found) if _NOTE.fullmatch(relative) else rendered


def appended(rendered: bytes, found: bytes) -> bytes:
    """What a log should hold, given what is there: always all of that, and more behind it."""
    beginnings = (0, *(mark.end() for mark in re.finditer(re.escape(CORRECTION), found)))
    for begin in beginnings:  # what is rendered may quote a correction itself
        if rendered.startswith(found[begin:]):
            return found[:begin] + rendered
    return found + CORRECTION + rendered


def flags_by_hand(directory: Path) -> dict[int, bool]:
    """Flags that readers set or took away since the notes were rendered, by round.

    Raises:
        StorageError: a note can't be read.
    """
    notes: dict[str, bytes] = {}
    for path in (directory / "memory").glob("v*.json"):
        with storage_errors("read", path):
            notes[f"memory/{path.name}"] = path.read_bytes()
    return flags(notes)


def flags(files: Mapping[str, bytes]) -> dict[int, bool]:
    """The same of files by their paths in the campaign directory."""
    notes = ((_NOTE.fullmatch(path), _flag_by_hand(data)) for path, data in files.items())
    return {int(note[1]) + 1: flag for note, flag in notes if note and flag is not None}


def _flag_by_hand(text: bytes) -> bool | None:
    """What somebody set a note's mask to in an editor; None if it is as the ledger has it.

    A mask from the ledger comes with its reason, so a flag that its reason doesn't fit is a
    reader's, and no rendering that a crash left behind.
    """
    content = _read(text)
    flag = content.get("masked")
    recorded = content.get("masked_because") is not None
    return flag if isinstance(flag, bool) and flag != recorded else None


def _with_readers_mask(rendered: bytes, found: bytes) -> bytes:
    """What a note should hold, given what is there.

    A flag that somebody set or took away by hand stays as it is until the ledger has it too, and
    the note stays as it is written if it says nothing else than the rendering: whoever sets the
    flag may indent as they like.
    """
    flag, note, there = _flag_by_hand(found), _read(rendered), _read(found)
    if flag is None or note.get("masked") is flag:
        return rendered
    kept = note | {name: there[name] for name in _FLAGS if name in there}
    if there == kept:
        return found
    return (json.dumps(kept, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _read(data: bytes) -> dict[str, object]:
    """The object in a note; empty if there is none: it was damaged."""
    try:
        content = json.loads(data)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
