"""Where everybody stands: baseline, final kernel, yardsticks and floor, class by class. Pure.

Ratios are how much faster the final kernel is than the row's; fractions are floor over time, as
geometric means over a class's workloads, and UNKNOWN if any of its floors is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import geometric_mean

from roofsmith.domain.campaign import Campaign
from roofsmith.domain.outcome import Passed
from roofsmith.domain.yardstick import YardstickResult
from roofsmith.report.summary import (
    ClassRow,
    ClassStandings,
    Ratio,
    Role,
    Standing,
    WorkloadRow,
)
from roofsmith.report.yardsticks import inverse


def standings(
    campaign: Campaign,
    workloads: Sequence[WorkloadRow],
    classes: Sequence[ClassRow],
    final: str | None,
) -> tuple[ClassStandings, ...]:
    """A block per class that was timed, in the campaign's order.

    `final` names the kernel that holds; None: the baseline does, and has no second row.
    """
    event = campaign.yardsticks
    beside = event.results if event and event.incumbent_id == campaign.incumbent.id else ()
    blocks = []
    for found in classes:
        members = [row for row in workloads if row.label in found.workloads]
        rows = tuple(_rows(members, found, beside, final))
        if rows:
            blocks.append(ClassStandings(found.name, found.workloads, rows))
    return tuple(blocks)


def _rows(
    members: Sequence[WorkloadRow],
    found: ClassRow,
    beside: Sequence[YardstickResult],
    final: str | None,
) -> Iterator[Standing]:
    floors = {row.label: row.floor_time_s for row in members}
    before = {row.label: row.baseline_time_s for row in members}
    after = {row.label: row.final_time_s for row in members}
    baseline = _standing("baseline", "baseline", before, floors, found.speedup if final else None)
    if baseline is None:
        return
    rest = (
        _standing("final", final, after, floors, None) if final else None,
        *(_yardstick(result, found.name, floors) for result in beside),
        _standing("floor", "hardware limit", floors, floors, None),
    )
    yield from (baseline, *(row for row in rest if row is not None))


def _standing(
    role: Role,
    name: str,
    times_s: dict[str, float | None],
    floors_s: dict[str, float | None],
    ratio: Ratio | None,
) -> Standing | None:
    times = [time_s for time_s in times_s.values() if time_s is not None]
    if not times or len(times) < len(times_s):
        return None
    mean_s = geometric_mean(times)
    floors = [floor_s for floor_s in floors_s.values() if floor_s is not None]
    known = len(floors) == len(times)
    return Standing(role, name, mean_s, geometric_mean(floors) / mean_s if known else None, ratio)


def _yardstick(
    result: YardstickResult, config_class: str, floors_s: dict[str, float | None]
) -> Standing | None:
    judgement = result.judgement
    if judgement.comparison is None or not isinstance(judgement.outcome, Passed):
        return None
    times: dict[str, float | None] = dict.fromkeys(floors_s)
    times |= {
        row.workload: row.candidate_time_s
        for row in judgement.comparison.workloads
        if row.workload in floors_s
    }
    estimate = judgement.comparison.of(config_class)
    ratio = None if estimate is None else inverse(estimate)
    return _standing("yardstick", result.name, times, floors_s, ratio)
