"""Where everybody stands: baseline, final kernel, yardsticks and floor. Pure.

Ratios are how much faster the final kernel is than the row's; fractions are floor over time, as
geometric means over a class's workloads, and UNKNOWN if any of its floors is. A yardstick was
judged as the candidate, with the kernel as the incumbent; here it is turned around.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import geometric_mean

from roofsmith.domain.campaign import Campaign
from roofsmith.domain.comparison import Estimate, Judgement
from roofsmith.domain.outcome import Passed
from roofsmith.domain.yardstick import PyTorchBaselineResult
from roofsmith.report.steps import why_unmeasured
from roofsmith.report.summary import (
    CampaignState,
    ClassRow,
    ClassStandings,
    Ratio,
    Role,
    WorkloadRow,
    YardstickRow,
)


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
    beside: Sequence[PyTorchBaselineResult],
    final: str | None,
) -> Iterator[CampaignState]:
    floors = {row.label: row.floor_time_s for row in members}
    is_whole = not any(row.bound.bytes_only for row in members)
    limit = "hardware limit" if is_whole else "floor (bytes only)"
    before = {row.label: row.baseline_time_s for row in members}
    after = {row.label: row.final_time_s for row in members}
    baseline = _standing("baseline", "baseline", before, floors, found.speedup if final else None)
    if baseline is None:
        return
    rest = (
        _standing("final", final, after, floors, None) if final else None,
        *(_yardstick(result, found.name, floors) for result in beside),
        _standing("floor", limit, floors, floors, None),
    )
    yield from (baseline, *(row for row in rest if row is not None))


def _standing(
    role: Role,
    name: str,
    times_s: dict[str, float | None],
    floors_s: dict[str, float | None],
    ratio: Ratio | None,
) -> CampaignState | None:
    times = [time_s for time_s in times_s.values() if time_s is not None]
    if not times or len(times) < len(times_s):
        return None
    mean_s = geometric_mean(times)
    floors = [floor_s for floor_s in floors_s.values() if floor_s is not None]
    known = len(floors) == len(times)
    return CampaignState(
        role, name, mean_s, geometric_mean(floors) / mean_s if known else None, ratio
    )


def _yardstick(
    result: PyTorchBaselineResult, config_class: str, floors_s: dict[str, float | None]
) -> CampaignState | None:
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


def campaign_yardsticks(campaign: Campaign) -> tuple[YardstickRow, ...]:
    """Rows of what was measured beside the kernel that holds now; none if that is another one."""
    event = campaign.yardsticks
    if event is None or event.incumbent_id != campaign.incumbent.id:
        return ()
    return yardstick_rows(event.results)


def yardstick_rows(results: Sequence[PyTorchBaselineResult]) -> tuple[YardstickRow, ...]:
    """A row per yardstick and workload; one alone for a yardstick without times."""
    return tuple(row for result in results for row in _yardstick_rows(result))


def ratio_over(judgement: Judgement) -> Ratio | None:
    """How much faster the kernel is than a yardstick over all workloads; None if nobody knows."""
    if judgement.comparison is None or not isinstance(judgement.outcome, Passed):
        return None
    return inverse(judgement.comparison.overall)


def _yardstick_rows(result: PyTorchBaselineResult) -> Iterator[YardstickRow]:
    name = f"{result.name} ({', '.join(result.calls)})" if result.calls else result.name
    found = result.judgement
    if found.comparison is None or not isinstance(found.outcome, Passed):
        yield YardstickRow(
            name,
            None,
            None,
            None,
            None,
            why_unmeasured(found, next(iter(found.notes), "not measured")),
        )
        return
    for row in found.comparison.workloads:
        yield YardstickRow(
            name, row.workload, row.candidate_time_s, row.incumbent_time_s, inverse(row.estimate)
        )
    if len(found.comparison.workloads) > 1:
        yield YardstickRow(name, None, None, None, inverse(found.comparison.overall))


def inverse(estimate: Estimate) -> Ratio:
    """The same ratio, seen from the kernel."""
    low, high = estimate.ci
    return Ratio(1 / estimate.speedup, (1 / high, 1 / low))
