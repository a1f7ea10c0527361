"""Config classes found in the baseline's times: which dimensions or columns tell them apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from roofsmith.analysis.residency import MEMORY, capacity_bytes, data_caches
from roofsmith.domain.bound import Bound
from roofsmith.domain.comparison import Timing
from roofsmith.domain.device import Device
from roofsmith.domain.workload import ConfigClass, Workload

LEAST_MEMBERS = 2
"""Of a class that is found: what one workload does alone is no pattern."""
LEAST_RATIO = 1.5
"""Between the two sides of a split, as geometric means: less is no other behaviour."""
LEAST_SHARE = 0.5
"""Of a class's differences that a split has to explain."""
MOST_SPLITS = 2
"""One after the other, so that a class of the roofline becomes four at most."""


@dataclass(frozen=True, slots=True)
class _Member:
    workload: Workload
    level: float
    """ln of the time over the floor, or of the time where no floor is known."""


@dataclass(frozen=True, slots=True)
class _Stratum:
    members: tuple[_Member, ...]
    conditions: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Split:
    column: str
    sides: tuple[tuple[_Member, ...], tuple[_Member, ...]]
    names: tuple[str, str]
    gain: float
    """Sum of squares that it explains."""


def found_classes(
    workloads: Sequence[Workload], classes: Sequence[ConfigClass], timings: Sequence[Timing]
) -> tuple[ConfigClass, ...]:
    """The classes, each divided by what its times show; what is declared apart stays apart.

    A class is split in two where one column (a threshold on a dimension, or one value of a tag)
    explains most of how its times differ: as multiples of the roofline's floor, or by themselves
    where a floor is UNKNOWN. The split that leaves the least sum of squares wins, as in a
    regression tree (Breiman et al., *Classification and Regression Trees*, 1984, section 8.4).

    Args:
        workloads: of the target.
        classes: a partition of them: declared ones, and those of the roofline. The parts of a
            declared class begin with its name.
        timings: of the baseline; a class with a workload that has none stays as it is.
    """
    by_label = {workload.label: workload for workload in workloads}
    times = {timing.workload: timing for timing in timings}
    found: list[ConfigClass] = []
    for known in classes:
        members = [by_label[label] for label in known.workloads]
        if any(w.label not in times for w in members):
            found.append(known)
        else:
            found += _divided(known, members, times)
    return tuple(found)


def _divided(
    known: ConfigClass, workloads: Sequence[Workload], times: Mapping[str, Timing]
) -> Iterator[ConfigClass]:
    floors = {w.label: times[w.label].floor_time_s for w in workloads}
    bounded = all(floor is not None for floor in floors.values())
    members = tuple(
        _Member(w, math.log(times[w.label].time_s / ((floors[w.label] or 1.0) if bounded else 1.0)))
        for w in workloads
    )
    strata = _strata(_Stratum(members))
    if len(strata) == 1:
        yield known
        return
    share = 1 - math.fsum(_spread(s.members) for s in strata) / _spread(members)
    columns = list(dict.fromkeys(column for s in strata for column in s.columns))
    verb = "explains" if len(columns) == 1 else "explain"
    for stratum in strata:
        here = f", {math.exp(-_mean(stratum.members)):.0%} of the roofline here" if bounded else ""
        yield ConfigClass(
            name=f"{known.name}: {' and '.join(stratum.conditions)}",
            workloads=tuple(member.workload.label for member in stratum.members),
            reason=(
                f"{known.reason}; {' and '.join(columns)} {verb} {share:.0%} of how the baseline's"
                f" times differ{here}"
            ),
        )


def _strata(whole: _Stratum) -> list[_Stratum]:
    split = _best_split(whole.members) if len(whole.conditions) < MOST_SPLITS else None
    if split is None:
        return [whole]
    found = []
    for members, name in zip(split.sides, split.names, strict=True):
        part = _Stratum(
            members, (*whole.conditions, name), tuple(dict.fromkeys((*whole.columns, split.column)))
        )
        found += _strata(part)
    return found


def _best_split(members: Sequence[_Member]) -> _Split | None:
    total = _spread(members)
    splits = [
        split
        for split in _splits(members)
        if min(map(len, split.sides)) >= LEAST_MEMBERS
        and split.gain >= LEAST_SHARE * total
        and abs(_mean(split.sides[0]) - _mean(split.sides[1])) >= math.log(LEAST_RATIO)
    ]
    return max(splits, key=lambda split: split.gain, default=None)


def _splits(members: Sequence[_Member]) -> Iterator[_Split]:
    first = members[0].workload
    for column in first.dims:
        sizes = sorted({m.workload.dims[column] for m in members})
        for low, high in pairwise(sizes):
            sides = _parted(members, [m.workload.dims[column] <= low for m in members])
            at_most = f"{column} = {low}" if low == sizes[0] else f"{column} <= {low}"
            at_least = f"{column} = {high}" if high == sizes[-1] else f"{column} >= {high}"
            yield _Split(column, sides, (at_most, at_least), _gain(members, sides))
    for column in first.tags:
        values = sorted({m.workload.tags[column] for m in members})
        for value in values if len(values) > 2 else values[:-1]:
            sides = _parted(members, [m.workload.tags[column] == value for m in members])
            rest = f"= {values[-1]}" if len(values) == 2 else f"other than {value}"
            names = (f"{column} = {value}", f"{column} {rest}")
            yield _Split(column, sides, names, _gain(members, sides))


def _parted(
    members: Sequence[_Member], is_first: Sequence[bool]
) -> tuple[tuple[_Member, ...], tuple[_Member, ...]]:
    pairs = list(zip(members, is_first, strict=True))
    return tuple(m for m, first in pairs if first), tuple(m for m, first in pairs if not first)


def _gain(members: Sequence[_Member], sides: tuple[tuple[_Member, ...], ...]) -> float:
    return _spread(members) - math.fsum(_spread(side) for side in sides)


def _mean(members: Sequence[_Member]) -> float:
    return fmean(member.level for member in members)


def _spread(members: Sequence[_Member]) -> float:
    """Sum of squared distances from the mean; 0 for nobody."""
    if not members:
        return 0.0
    middle = _mean(members)
    return math.fsum((member.level - middle) ** 2 for member in members)


def config_classes(
    workloads: Sequence[Workload], bounds: Sequence[Bound], device: Device
) -> tuple[ConfigClass, ...]:
    """Every workload in exactly one class, in the order in which classes first appear.

    A declared class wins. The others are grouped by what limits them and by the level of the
    memory hierarchy that holds their data, as in `memory roof, in L2`.

    Args:
        workloads: of the target.
        bounds: the roofline of each, found by label; a workload without one is `unclassified`.
        device: its cache sizes go into the reason.
    """
    by_label = {bound.workload: bound for bound in bounds}
    members: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    for workload in workloads:
        name, reason = _name_and_reason(workload, by_label.get(workload.label), device)
        members.setdefault(name, []).append(workload.label)
        reasons.setdefault(name, reason)
    return tuple(
        ConfigClass(name=name, workloads=tuple(labels), reason=reasons[name])
        for name, labels in members.items()
    )


def _name_and_reason(workload: Workload, bound: Bound | None, device: Device) -> tuple[str, str]:
    if workload.config_class is not None:
        return workload.config_class, "declared in the target"
    if bound is None:
        return "unclassified", "no roofline was computed"
    limit, why = f"{bound.limiter} roof", f"the roofline's limiter is {bound.limiter}"
    if bound.limiter == "unknown":
        limit, why = "unknown limit", "the roofline is UNKNOWN"
    if bound.place is not None:
        return f"{limit}, in {bound.place}", f"{why}; {_place(bound, device)}"
    name = "unclassified" if bound.limiter == "unknown" else limit
    return name, f"{why}; how much data there is isn't known"


def _place(bound: Bound, device: Device) -> str:
    """Where the data lives, with the size that decides it; the same for a whole class."""
    caches = data_caches(device)
    if bound.working_set == MEMORY:
        if not caches:
            return "cache sizes are not known"
        last = caches[-1]
        return f"the data doesn't fit L{last.level} ({last.size_bytes} byte)"
    cache = next((c for c in caches if f"L{c.level}" == bound.working_set), None)
    size = f" ({capacity_bytes(cache, 1)} byte each)" if cache else ""
    return f"the data fits {bound.working_set}{size}"
