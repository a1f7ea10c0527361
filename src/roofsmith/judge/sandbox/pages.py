"""Whether a stopped process still has the pages that were written for it, seen from outside.

A page that is given back to the system costs its process nothing, and reads as zeros: it is
whoever reads it who has the system clear one. See "pagemap" in Linux'
Documentation/admin-guide/mm/pagemap.rst and MADV_DONTNEED in madvise(2).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence

import numpy as np

from roofsmith.judge.timing.segment import Ranges

_SWAPPED, _PRESENT, _ALONE, _OF_FILE = (1 << bit for bit in (62, 63, 56, 61))
_ENTRY_BYTES = 8
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STRETCH_PAGES = 256
"""Neighbours that are looked at together. Chosen."""
MOST_STRETCHES = 16
"""Of one look, at random where there are more: that many find who gives back a twentieth of his
memory in more than half of the looks. Chosen."""


def are_gone(pid: int, ranges: Ranges, *, is_alone: bool) -> bool:
    """Whether pages of a process's own, written memory aren't there any more.

    False where that may not be asked.

    Args:
        pid: of the process.
        ranges: (address, size) of what was written.
        is_alone: whether the process can't have children that share its pages; only then can a
            page of its own be told from the one that all processes read zeros from.
    """
    try:
        pages = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    wanted = _PRESENT | (_ALONE if is_alone else 0)
    try:
        for first, count in _chosen(_stretches(ranges)):
            read = os.pread(pages, count * _ENTRY_BYTES, first * _ENTRY_BYTES)
            found = np.frombuffer(read, np.uint64)
            is_own = found & np.uint64(wanted | _OF_FILE) == np.uint64(wanted)
            if not (is_own | (found & np.uint64(_SWAPPED) != 0)).all():
                return True
    except OSError:
        return False
    finally:
        os.close(pages)
    return False


def _stretches(ranges: Ranges) -> list[tuple[int, int]]:
    """(first page, pages) of neighbours, in ranges that may adjoin."""
    found: list[tuple[int, int]] = []
    for address, size in sorted(ranges):
        first, last = address // PAGE_BYTES, -(-(address + size) // PAGE_BYTES)
        if found and sum(found[-1]) == first:
            first, _ = found.pop()
        starts = range(first, last, STRETCH_PAGES)
        found += [(start, min(STRETCH_PAGES, last - start)) for start in starts]
    return found


def _chosen(stretches: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    if len(stretches) <= MOST_STRETCHES:
        return stretches
    return secrets.SystemRandom().sample(list(stretches), MOST_STRETCHES)
