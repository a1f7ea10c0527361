"""A campaign and a round as pictures and tables for a page that is looked at while it runs. Pure.

The same parts as in `report.html`, of as much of a long campaign as a page holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from jinja2 import Template
from markupsafe import escape

from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.profile import Profile
from roofsmith.report.counters import CounterRow, counter_rows, headlines
from roofsmith.report.diffs import Beside, FileDiff, candidate_diff, side_by_side
from roofsmith.report.html import roofline_panels
from roofsmith.report.samples_chart import paired_rows, samples_chart
from roofsmith.report.steps import status_of, steps_of
from roofsmith.report.summarize import roofline_point, summarize
from roofsmith.report.summary import Ratio, Summary, SummaryStep, WorkloadRow
from roofsmith.report.templating import html_environment
from roofsmith.report.trend_chart import trend_chart

# Chosen: with them no page comes to 200 kB.
_MARKS = 60
"""Rounds that are drawn: all that were kept, and the last ones."""
_PANELS = 6
_STRIPS = 12
_ROWS = 80
"""Of a table."""
_DIFF_BYTES, _LINE_BYTES = 32_000, 110
"""Of a difference; of a line in it, beside its text."""
STYLES = ("colours.css", "parts.css", "chart.css")
"""What these parts need of a page's style sheet."""


def style() -> str:
    return "\n".join(html_environment().get_template(name).render() for name in STYLES)


def drawn_campaign(campaign: Campaign, link: str) -> tuple[Summary, dict[str, str]]:
    """A campaign's summary, with the steps that are drawn, its lineage and its rooflines.

    Args:
        campaign: with rounds or without.
        link: what a round's number is put behind to make the address of its page.
    """
    last = max(0, _MARKS - len(campaign.kept))
    recent = {one.round for one in campaign.rounds[-last:]} if last else set()
    summary = summarize(campaign, lambda r: r.round in recent or r.decision.kind == "kept")
    shown, all_ = len(summary.steps) - 1, len(campaign.rounds)
    charts = [
        trend_chart(summary, narrow=narrow, link=link) if 0 < shown <= _MARKS else None
        for narrow in (False, True)
    ]
    left = f"{shown} of {all_} rounds: what was kept, and the last {last}"
    return summary, {
        "roofline": _rooflines(summary.workloads),
        "lineage": _both(charts) if charts[0] else "",
        "lineage_of": left if shown < all_ else "",
    }


def drawn_round(campaign: Campaign, round_: Round) -> tuple[SummaryStep, dict[str, str]]:
    """A round, and its differences, samples, counters and rooflines."""
    step = next(
        one for one in steps_of(campaign, lambda r: r is round_) if one.number == round_.round
    )
    macros = _macros().make_module({"counter_rows": _counters, "status": status_of})
    parts: dict[str, Any] = {
        "comparison": macros.comparison(step, True, _ROWS),  # type: ignore[attr-defined]
        "counters": macros.counters(step, True, _ROWS),  # type: ignore[attr-defined]
        "sweep": macros.sweep(step, _ROWS),  # type: ignore[attr-defined]
        "parent": _beside(step.diff),
        "start": _beside(candidate_diff(campaign.started.target.baseline, round_.candidate)),
        "roofline": _rooflines(tuple(_moved(campaign, step))),
        "samples": "",
    }
    if rows := paired_rows(round_.judgement)[:_STRIPS]:
        band = campaign.started.target.keep.noise_band
        parts["samples"] = _both(samples_chart(rows, band, narrow=one) for one in (False, True))
    return step, {name: str(part).strip() for name, part in parts.items()}


def _counters(before: Profile | None, after: Profile | None) -> tuple[CounterRow, ...]:
    """All, or those that say most where a profiler gives hundreds."""
    rows = counter_rows(before, after)
    few = (row for group in headlines(rows) for row in group.rows)
    return rows if len(rows) <= _ROWS else tuple(few) or rows


def _macros() -> Template:
    return html_environment().get_template("macros.html.j2")


def _both(drawings: Iterable[object]) -> str:
    wide, narrow = drawings
    return f'<div class="wide">{wide or ""}</div><div class="narrow">{narrow or ""}</div>'


def _rooflines(rows: tuple[WorkloadRow, ...]) -> str:
    template = html_environment().get_template("rooflines.html.j2")
    return template.render(panels=roofline_panels(rows[:_PANELS]), left=len(rows[_PANELS:]))


def _moved(campaign: Campaign, step: SummaryStep) -> Iterator[WorkloadRow]:
    """From the kernel that it was held against to its own, on every workload."""
    held = max((one.round for one in campaign.kept if one.round < step.number), default=1)
    for one in step.comparison.workloads if step.comparison is not None else ():
        bound = campaign.bound(one.workload)
        ends = ((held, one.incumbent_time_s), (step.number, one.candidate_time_s))
        path = tuple(roofline_point(number, time_s, bound) for number, time_s in ends)
        yield WorkloadRow(
            label=one.workload, dims=one.dims, config_class=one.config_class,
            baseline_time_s=one.incumbent_time_s, final_time_s=one.candidate_time_s,
            speedup=Ratio(one.estimate.speedup, one.estimate.ci), bound=bound, path=path,
            floor_time_s=bound.floor_time_s, fraction=path[-1].fraction,
        )  # fmt: skip


def _beside(files: tuple[FileDiff, ...]) -> str:
    """Files side by side, as far as there is room; of the rest, how much is left out."""
    room, shown, left = _DIFF_BYTES, [], 0
    for file in files:
        rows: list[Beside] = []
        for row in side_by_side(file) if room > 0 else ():
            pieces = [*(row.before or ()), *(row.after or ())]
            room -= _LINE_BYTES + sum(len(escape(text).encode()) for text, _ in pieces)
            if room > 0:
                rows.append(row)
            else:
                left += 1
        shown.append((file, rows))
    return html_environment().get_template("beside.html.j2").render(files=shown, left=left)
