"""`report.html`: one page, no scripts, nothing fetched; opens offline, on a phone and in print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from roofsmith.analysis import figures as fmt
from roofsmith.analysis import kernel_table
from roofsmith.analysis.isa_targets import isa_progress
from roofsmith.analysis.own_facts import REPORTED
from roofsmith.analysis.spending import COLUMNS, spending_rows
from roofsmith.domain.campaign import Campaign
from roofsmith.report.arithmetic import limiter_words, roofline_lines
from roofsmith.report.counters import counter_rows
from roofsmith.report.headline import in_full
from roofsmith.report.markdown import COMMANDS, achieved, state_line, why_turned_down
from roofsmith.report.performance import profiled_runs
from roofsmith.report.roofline_chart import roofline_charts
from roofsmith.report.steps import status_of
from roofsmith.report.summary import Summary, WorkloadRow
from roofsmith.report.templating import TIMES, css_width, html_environment
from roofsmith.report.trend_chart import trend_chart

_CEILINGS = {
    "memory": "the memory bandwidth of this machine allows",
    "compute": "the arithmetic of this machine allows",
}


@dataclass(frozen=True, slots=True)
class Panel:
    """One workload's roofline, drawn for its place on the page."""

    row: WorkloadRow
    narrow: Markup
    wide: Markup | None
    """Where it is the only one and has the page's whole width."""


def render_html(campaign: Campaign, summary: Summary) -> str:
    """The whole page. Whatever came from a kernel, a compiler or a user is escaped."""
    started = campaign.started
    used = {fact: None for bound in started.bounds for fact in (bound.bandwidth, bound.peak)}
    others = [fact for fact in started.facts.facts() if fact not in used]
    panels = roofline_panels(summary.workloads)
    drawn = {panel.row.label for panel in panels}
    page = html_environment().get_template("report.html.j2")
    return page.render(
        s=summary,
        rests_on=in_full(campaign, summary),
        target=started.target,
        environment=started.environment,
        device=started.environment.device,
        reported=f"<- {REPORTED}",
        state_line=state_line(summary),
        lede=_lede(summary),
        trend_wide=trend_chart(summary, narrow=False),
        trend_narrow=trend_chart(summary, narrow=True),
        panels=panels,
        unknown_rooflines=[row for row in summary.workloads if row.label not in drawn],
        cited_facts=list(used),
        other_facts=others,
        commands=COMMANDS,
        isa=isa_progress(campaign),
        arithmetic=lambda bound: "\n".join(roofline_lines(bound, started.target.goal)),
        limiter=limiter_words,
        achieved=achieved,
        why=why_turned_down,
        counter_rows=counter_rows,
        kernel_table=kernel_table,
        profiled_runs=profiled_runs(campaign),
        status=status_of,
        budget=_budget,
        spent=spending_rows(summary.spendings),
        spending_columns=COLUMNS,
    )


def roofline_panels(workloads: Sequence[WorkloadRow]) -> list[Panel]:
    narrow = roofline_charts(workloads, wide=False)
    wide = roofline_charts(workloads, wide=True) if len(narrow) == 1 else ()
    by_label = {row.label: chart for row, chart in wide}
    return [Panel(row, chart, by_label.get(row.label)) for row, chart in narrow]


def _lede(summary: Summary) -> str:
    tried = summary.totals.tried
    kept = summary.totals.kept - sum(step.simpler for step in summary.kept)
    lede = f"{kept} of {fmt.plural(tried, 'change')} proven faster and kept. "
    best = max(summary.kept, key=lambda step: step.gain, default=None)
    if best is not None:
        gain = fmt.speedup(best.gain, TIMES)
        title = fmt.one_line(best.title)
        lede += f"The biggest step was round {best.number}, {gain}: \N{LEFT DOUBLE QUOTATION MARK}"
        lede += f"{title}\N{RIGHT DOUBLE QUOTATION MARK}. "
    if summary.fraction is not None and summary.baseline_fraction is not None:
        ceiling = _CEILINGS.get(summary.limiter, "the ceilings of this machine allow")
        shares = (summary.baseline_fraction, summary.fraction)
        before, after = (fmt.share(share, summary.bytes_only) for share in shares)
        lede += "That took" if kept == 1 else "Together they took"
        lede += f" the kernel from {before} to {after} of what {ceiling}."
    return lede


def _budget(error: float, budget: float) -> Markup:
    """A bar of how much of an error budget is used, with the share in words."""
    if budget <= 0:
        return Markup(fmt.UNKNOWN)
    share = error / budget
    return Markup('<span class="bar"><i style="width:{}"></i></span> {}').format(
        css_width(share), fmt.percent(share)
    )
