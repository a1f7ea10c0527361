"""`baseline_report.md`: what a campaign begins from, as round 1 measured it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roofsmith.domain.bound import Bound
from roofsmith.domain.campaign import Campaign
from roofsmith.report.summary import Summary
from roofsmith.report.templating import render_markdown

_MOST_LINES = 12
"""Of what the reference computes; the manifest has all of it."""


@dataclass(frozen=True, slots=True)
class BaselineRow:
    """The baseline on one workload."""

    label: str
    time_s: float | None
    """As the measure records it; None: it wasn't timed."""
    bound: Bound
    fraction: float | None
    """Floor over time; None where either isn't known."""


def baseline_report(campaign: Campaign, summary: Summary) -> str:
    """Of a campaign that has its baseline: kernel, reference, times, and the share of the roofline.

    It rests on the ledger's first two records, so that no later round changes it.
    """
    started, step = campaign.started, summary.steps[0]
    computed = started.computed
    return render_markdown(
        "baseline_report.md",
        s=summary,
        step=step,
        target=started.target,
        entry=None if started.target.command is not None else started.target.entry,
        flags=" ".join(started.target.baseline.build.flags),
        rows=list(_rows(campaign, summary)),
        operations=() if computed is None else computed.operations[:_MOST_LINES],
        operator="" if computed is None else computed.operator,
        reference_s=started.reference_s,
        kernel_s=sum(step.times_s.values()) or None,
        bytes_only=started.bytes_only,
    )


def _rows(campaign: Campaign, summary: Summary) -> Iterator[BaselineRow]:
    times, measure = summary.steps[0].times_s, summary.measure
    for bound in campaign.started.bounds:
        time_s = times.get(bound.workload)
        floor_s = bound.floor_time_s if measure.is_time else None
        fraction = floor_s / time_s if floor_s and time_s else None
        yield BaselineRow(bound.workload, time_s, bound, fraction)
