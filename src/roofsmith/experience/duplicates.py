"""Experiments that tell the same: one of them may stand for the others. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from roofsmith.domain.experiment import Experiment

Group: TypeAlias = tuple[Experiment, tuple[Experiment, ...]]
"""The one that stands for the others, and those."""


def duplicates(rows: Iterable[Experiment]) -> tuple[Group, ...]:
    """The same change of the same kernel in the same environment, told or judged again; of rows in
    the order of time.

    Kernels are compared by their ids; of what somebody told, the words are. What came to something
    else is another finding. What was verified stays, then what was measured most precisely, else
    the newest. Masked experiments stay what they are.
    """
    groups: dict[tuple[object, ...], list[Experiment]] = defaultdict(list)
    for row in rows:
        if not row.masked:
            groups[_what(row)].append(row)
    return tuple(_told_by_one(group) for group in groups.values() if len(group) > 1)


def _told_by_one(group: list[Experiment]) -> Group:
    stays = min(reversed(group), key=_vagueness)
    return stays, tuple(one for one in group if one is not stays)


def _what(row: Experiment) -> tuple[object, ...]:
    where = (
        row.operator_sig,
        row.backend,
        row.device,
        row.arch,
        row.dtype_sig,
        row.status,
        row.outcome,
    )
    if row.candidate_id:
        return (*where, row.environment_fingerprint, row.incumbent_id, row.candidate_id)
    statement = row.hypothesis.statement if row.hypothesis is not None else ""
    words = " ".join(f"{row.change_summary} {statement}".lower().split())
    return (*where, row.env, tuple(row.dims), words)


def _vagueness(row: Experiment) -> tuple[bool, float]:
    """Whether nothing verified it, and the width of its interval."""
    low, high = row.interval or (0.0, math.inf)
    return row.verdict == "unverified", high - low
