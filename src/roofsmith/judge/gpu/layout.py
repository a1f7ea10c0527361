"""Where the arrays of a slot lie in device memory."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.judge.arena import Layout
from roofsmith.ports import ArraySpec

ALIGNMENT_BYTES = 512
"""Of every array: what torch's allocator gives, so that no kernel meets less than it may expect."""
GUARD_BYTES = 4096
"""Before and behind every array."""


def lay_out(arrays: Sequence[ArraySpec]) -> Layout:
    """Place arrays one behind the other, each aligned and between guard bands."""
    offsets, cursor = [], 0
    for array in arrays:
        offsets.append(cursor + GUARD_BYTES)
        end = cursor + GUARD_BYTES + array.size_bytes + GUARD_BYTES
        cursor = -(-end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return Layout(tuple(arrays), tuple(offsets), cursor)
