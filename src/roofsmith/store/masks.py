"""Masked memory notes: `masked` is the reader's to set, everything else in a note is rendered."""

from __future__ import annotations

import json
import re

_NOTE = re.compile(r"memory/v\d+\.json")
_FLAG = "masked"


def with_readers_mask(relative: str, rendered: bytes, found: bytes | None) -> bytes:
    """What a rendered file should hold, given what is there.

    A note that somebody masked stays masked, and stays as it is written if it says nothing else
    than the rendering: whoever sets the flag may indent as they like.

    Args:
        relative: the file's path in the campaign directory.
        rendered: its new content.
        found: its content now; None if it isn't there.
    """
    if found is None or not _NOTE.fullmatch(relative):
        return rendered
    note, there = _read(rendered), _read(found)
    if note is None or there is None or there.get(_FLAG) is not True:
        return rendered
    masked = note | {_FLAG: True}
    if there == masked:
        return found
    return (json.dumps(masked, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _read(data: bytes) -> dict[str, object] | None:
    """The object in a note; None if there is none: it was damaged."""
    try:
        content = json.loads(data)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
