"""How unevenly rows are dealt to groups, and dealing them so: what a grouped operator meets outside
of a benchmark. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from roofsmith.analysis.group_names import SIZES, is_offsets

UNEVEN = 2.0
"""The largest group over the mean one, from which on groups are called uneven."""


def unevenness(arrays: Mapping[str, Sequence[int]]) -> float | None:
    """The largest group over the mean one, of the most uneven array of sizes or offsets.

    Returns:
        1.0 for equal groups; None if no array holds sizes or offsets.
    """
    found = (_sizes(name, values) for name, values in arrays.items())
    return max((max(one) * len(one) / sum(one) for one in found if one), default=None)


def uneven_workloads(found: Mapping[str, float]) -> frozenset[str]:
    """Labels of the workloads whose groups are uneven, by how uneven each one's are."""
    return frozenset(label for label, ratio in found.items() if ratio >= UNEVEN)


def _sizes(name: str, values: Sequence[int]) -> list[int]:
    """Rows per group; empty if that isn't what the array holds."""
    if not SIZES.fullmatch(name) or len(values) < 2:
        return []
    sizes = list(values)
    if is_offsets(name):
        ends = list(values) if values[0] == 0 else [0, *values]
        sizes = [b - a for a, b in pairwise(ends)]
    return sizes if len(sizes) > 1 and min(sizes) >= 0 and sum(sizes) > 0 else []


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
