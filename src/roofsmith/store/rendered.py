"""What a rendered file should hold, given what readers made of it."""

from __future__ import annotations

from pathlib import PurePosixPath

from roofsmith.analysis.append_only import appended
from roofsmith.store.masks import with_readers_mask


def beside_readers(relative: str, rendered: bytes, found: bytes | None) -> bytes:
    """The new content: a note keeps a reader's mask, a log all that it ever held.

    Args:
        relative: the file's path in the campaign directory.
        rendered: what the ledger says.
        found: its content now; None if it isn't there.
    """
    if _is_log(relative):
        return appended(rendered, found)
    return with_readers_mask(relative, rendered, found)


def _is_log(relative: str) -> bool:
    pure = PurePosixPath(relative)
    return pure.parts[0] == "logs" and pure.suffix == ".md"
