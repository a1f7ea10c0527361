"""Held-out workloads: what may be told of one, and the veto of what fails there. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from roofsmith.analysis.evidence import Evidence
from roofsmith.domain.campaign import RolledBack
from roofsmith.domain.held_out import HeldOutCheck
from roofsmith.domain.workload import Workload


def fails_unseen(evidence: Evidence) -> RolledBack | None:
    """It is right on the workloads that it was shown, and not on one that it wasn't."""
    found = next((one for one in evidence.findings if isinstance(one, HeldOutCheck)), None)
    if found is None or found.failure is None:
        return None
    return RolledBack(rule=f"wrong on a shape that no brief names: {found.failure}")


def clue(held_out: Workload, shown: Sequence[Workload]) -> str:
    """What tells a held-out workload from those shown, by its dimensions, without its sizes.

    >>> clue(Workload(dims={"N": 100}), [Workload(dims={"N": 128}), Workload(dims={"N": 64})])
    'N is no multiple of 8'
    """
    return ", ".join(_clues(held_out, shown)) or "its sizes are shown, but not together"


def _clues(held_out: Workload, shown: Sequence[Workload]) -> Iterator[str]:
    for name, size in held_out.dims.items():
        sizes = [workload.dims[name] for workload in shown]
        if size in sizes:
            continue
        broken = 2 * _power_of_two(size)
        if broken <= _power_of_two(math.gcd(*sizes)):
            yield f"{name} is no multiple of {broken}"
        else:
            yield f"{name} is none of those shown"


def _power_of_two(size: int) -> int:
    """The largest that divides it."""
    return size & -size
