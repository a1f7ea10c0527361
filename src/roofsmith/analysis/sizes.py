"""A target's workloads by size. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, prod

from roofsmith.domain.bound import Bound
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload


def smallest(target: Target, bounds: Sequence[Bound]) -> Workload:
    """The workload that moves the fewest bytes; by its dims' product where that is UNKNOWN."""
    return by_size(target, bounds)[0]


def by_size(target: Target, bounds: Iterable[Bound]) -> tuple[Workload, ...]:
    """All workloads, the `smallest` first."""
    moved = {bound.workload: bound.cost.total_bytes for bound in bounds}

    def size(workload: Workload) -> tuple[float, int]:
        size_bytes = moved.get(workload.label)
        return (inf if size_bytes is None else size_bytes), prod(workload.dims.values())

    return tuple(sorted(target.workloads, key=size))
