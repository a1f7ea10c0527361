"""Deals rows to groups unevenly: what a grouped operator meets outside of a benchmark. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from roofsmith.analysis.overfitting.group_names import SIZES, is_offsets


def skewed(arrays: Mapping[str, Sequence[int]], seed: int) -> dict[str, list[int]]:
    """Arrays of group sizes and of offsets, dealt anew with the same number of rows in all.

    One group is empty, one has a single row, one has about half of all, and none is rounded.

    Args:
        arrays: one-dimensional inputs of integers, by name.
        seed: of the order of the groups.

    Returns:
        New contents of those that hold sizes or offsets; empty if none do.
    """
    found: dict[str, list[int]] = {}
    for name, values in arrays.items():
        if not SIZES.fullmatch(name) or len(values) < 2:
            continue
        if not is_offsets(name):
            if min(values) >= 0 and sum(values) > 0:
                found[name] = dealt(sum(values), len(values), seed)
        elif all(a <= b for a, b in pairwise(values)) and values[0] >= 0:
            begins_at_zero = values[0] == 0
            groups = len(values) - begins_at_zero
            ends = list(accumulate(dealt(values[-1], groups, seed))) if groups > 1 else []
            if ends and values[-1] > 0:
                found[name] = [0, *ends] if begins_at_zero else ends
    return found


def dealt(rows: int, groups: int, seed: int) -> list[int]:
    """Rows per group: unequal, adding up to all of them."""
    rng = random.Random(seed)
    special = [0, min(1, rows)][: groups - 1]
    left, others = rows - sum(special), groups - len(special)
    largest = left - left // 2 if others > 1 else left
    cuts = sorted(rng.randint(0, left - largest) for _ in range(max(others - 2, 0)))
    ends = [*cuts, left - largest]
    rest = [b - a for a, b in pairwise([0, *ends])] if others > 1 else []
    sizes = [*special, largest, *rest]
    rng.shuffle(sizes)
    return sizes


def spelled(dealt_anew: Mapping[str, Sequence[int]]) -> str:
    """`m_sizes: 0, 1, 37, 90`: for people."""
    return "; ".join(
        f"{name}: {', '.join(map(str, values[:8]))}{', ...' if len(values) > 8 else ''}"
        for name, values in dealt_anew.items()
    )
