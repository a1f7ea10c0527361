"""Logs lose no text: what turns out to be wrong is followed by a correction. Pure."""

from __future__ import annotations

import re
from typing import Final

CORRECTION: Final = b"""

---

Correction: what stands above was edited, or written by another version of roofsmith. What the
ledger says follows, from the beginning.

"""


def appended(rendered: bytes, found: bytes | None) -> bytes:
    """What a log should hold, given what is there: always all of that, and more behind it.

    Args:
        rendered: what the ledger says now.
        found: the log's content; None if it isn't there.
    """
    if found is None:
        return rendered
    beginnings = (0, *(mark.end() for mark in re.finditer(re.escape(CORRECTION), found)))
    for begin in beginnings:  # what is rendered may quote a correction itself
        if rendered.startswith(found[begin:]):
            return found[:begin] + rendered
    return found + CORRECTION + rendered
