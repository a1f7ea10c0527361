"""Campaigns side by side: what each made of the same workloads, and how soon. Pure."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from statistics import median_low
from typing import TypeAlias

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.spending import spent_s
from roofsmith.api.excerpts import cut, ratio, short
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.dashboard import CampaignRow, Compared, Curve
from roofsmith.report.summary import Summary

Course: TypeAlias = Sequence[tuple[float, float]]
"""What was taken, and the speedup by then."""
_POINTS, _MOST_ROWS, _NAME, _LONGEST = 480, 30, 80, 400
"""Of all curves; classes or workloads; characters of their names and of a remark: at most."""
_SAME_FLOOR = 1.02
"""Ceilings that were measured twice differ by so much."""


def course_of(campaign: Campaign) -> list[tuple[float, float, float]]:
    """Seconds and dollars that were taken by and by, and the speedup by then; empty before the
    baseline."""
    if campaign.baseline is None:
        return []
    took = [(1, 0, campaign.baseline.wall_s, 0.0, 1.0)]
    took += [(r.round, 0, r.wall_s, r.cost_usd, r.total_speedup) for r in campaign.rounds]
    for at, event in ((one.after_round, one.event) for one in campaign.asides):
        took.append((at, 1, spent_s([event]), getattr(event, "cost_usd", 0.0), 0.0))
    found, seconds, cost, speedup = [], 0.0, 0.0, 1.0
    for _, _, spent, paid, now in sorted(took, key=lambda one: one[:2]):
        seconds, cost, speedup = seconds + spent, cost + paid, now or speedup
        found.append((seconds, cost, speedup))
    return found


def curves(
    rows: Sequence[CampaignRow], campaigns: Sequence[Campaign], *, by_cost: bool = False
) -> Iterator[Curve]:
    """A curve for each campaign; a band for those that did the same: repeats."""
    alike = defaultdict[Hashable, list[tuple[CampaignRow, Course]]](list)
    for row, campaign in zip(rows, campaigns, strict=True):
        course = [(one[by_cost], one[2]) for one in course_of(campaign)]
        if course and (row.cost_usd.value or not by_cost):
            target = campaign.started.target
            labels = tuple(one.label for one in target.workloads)
            task = target.name, target.baseline.id, labels, row.device, row.proposers
            alike[task].append((row, course))
    for group in alike.values():
        first = group[0][0]
        repeats = f"{len(group)} repeats: {first.kernel} by {', '.join(first.proposers)}"
        yield Curve(
            name=repeats if len(group) > 1 else first.name,
            campaigns=tuple(row.id for row, _ in group),
            points=tuple(_band([course for _, course in group], _POINTS // len(alike))),
        )


def _band(many: Sequence[Course], most: int) -> Iterator[tuple[float, float, float, float]]:
    """Each is 1x before its baseline, and stays where it ended."""
    places = sorted({at for course in many for at, _ in course})
    for at in places[:: -math.ceil(len(places) / most)][::-1]:
        ends = (bisect.bisect_right(course, at, key=lambda one: one[0]) for course in many)
        now = [course[end - 1][1] if end else 1.0 for course, end in zip(many, ends, strict=True)]
        yield short(at), short(min(now)), short(median_low(now)), short(max(now))


def floors(rows: Sequence[CampaignRow], found: Sequence[Summary]) -> Iterator[str]:
    """Where campaigns on one kernel and device had other limits, in words: shares differ."""
    told = defaultdict[tuple[str, str, str], list[tuple[float, str]]](list)
    for row, summary in zip(rows, found, strict=True):
        for one in summary.workloads:
            if one.floor_time_s:
                told[row.kernel, row.device, one.label].append((one.floor_time_s, row.name))
    for (*_, label), known in told.items():
        if max(known)[0] > _SAME_FLOOR * min(known)[0]:
            each = ", ".join(f"{fmt.time(floor_s)} in {name}" for floor_s, name in known)
            yield cut(f"the roofline of {label} was {each}", _LONGEST)


def sides(found: Sequence[Summary]) -> Iterator[Compared]:
    """Config classes of several workloads, then workloads, of all campaigns together."""
    of_class = [{c.name: c.speedup for c in s.classes if len(c.workloads) > 1} for s in found]
    of_workload = [{row.label: row.speedup for row in s.workloads} for s in found]
    for kind, each in (("class", of_class), ("workload", of_workload)):
        for name in list(dict.fromkeys(name for one in each for name in one))[:_MOST_ROWS]:
            speedups = (ratio(one.get(name), f"it measured no such {kind}") for one in each)
            yield Compared(kind=kind, name=cut(name, _NAME), speedups=tuple(speedups))
