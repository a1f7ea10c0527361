"""Masked memory notes: `masked` is the reader's to set, everything else in a note is rendered."""

from __future__ import annotations

import json
import re

from roofsmith.domain.memory import flag_by_hand

NOTE = re.compile(r"memory/v(\d+)\.json")
_FLAGS = ("masked", "masked_because")


def with_readers_mask(relative: str, rendered: bytes, found: bytes | None) -> bytes:
    """What a rendered file should hold, given what is there.

    A flag that somebody set or took away by hand stays as it is until the ledger has it too, and
    the note stays as it is written if it says nothing else than the rendering: whoever sets the
    flag may indent as they like.

    Args:
        relative: the file's path in the campaign directory.
        rendered: its new content.
        found: its content now; None if it isn't there.
    """
    if found is None or not NOTE.fullmatch(relative):
        return rendered
    flag = flag_by_hand(found)
    note, there = _read(rendered), _read(found)
    if flag is None or note is None or there is None or note.get("masked") is flag:
        return rendered
    kept = note | {name: there[name] for name in _FLAGS if name in there}
    if there == kept:
        return found
    return (json.dumps(kept, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _read(data: bytes) -> dict[str, object] | None:
    """The object in a note; None if there is none: it was damaged."""
    try:
        content = json.loads(data)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
