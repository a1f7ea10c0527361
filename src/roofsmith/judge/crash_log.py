"""What a worker printed before it died, kept for people."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from roofsmith.domain.outcome import PRINTED, Failure
from roofsmith.wording import printable

KEPT_LOG_BYTES = 64 * 1024
"""Of the beginning and of the end of what a worker printed that died."""


def with_last_words(outcome: Failure, log: Path, *, keeps: bool = True) -> Failure:
    """An outcome with the end of a log in its detail, and a copy of the log that stays.

    Args:
        outcome: of the process.
        log: what it printed.
        keeps: whether there is to be a copy, for whoever has the outcome to move or to remove.
    """
    printed = _ends_of(log)
    if not printed:
        return outcome
    last = printable(printed.decode(errors="replace").strip()[-200:])
    detail = f"{outcome.detail}{PRINTED}{last}" if last else outcome.detail
    told = outcome.model_copy(update={"detail": detail})
    if not keeps:
        return told
    handle, name = tempfile.mkstemp(prefix="roofsmith-worker-", suffix=".log")
    with os.fdopen(handle, "wb") as kept:
        kept.write(printed)
    return told.model_copy(update={"log": Path(name)})


def _ends_of(log: Path) -> bytes:
    """What a process printed; of very much, the beginning and the end."""
    try:
        with log.open("rb") as printed:
            begin = printed.read(KEPT_LOG_BYTES)
            rest = log.stat().st_size - len(begin)
            if rest <= KEPT_LOG_BYTES:
                return begin + printed.read()
            printed.seek(-KEPT_LOG_BYTES, os.SEEK_END)
            left_out = f"\n... {rest - KEPT_LOG_BYTES} bytes left out ...\n"
            return begin + left_out.encode() + printed.read()
    except FileNotFoundError:
        return b""
