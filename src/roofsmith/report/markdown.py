"""The Markdown and plain-text files of a campaign directory. Pure but for reading templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.bottleneck import decided_by
from roofsmith.analysis.compiled import described
from roofsmith.analysis.experiments import experiments
from roofsmith.analysis.fractions import rate_goals
from roofsmith.analysis.isa_targets import isa_progress
from roofsmith.analysis.own_facts import HOW_TO_GIVE, REPORTED, limits_of, needed_facts
from roofsmith.analysis.short_kernels import judged_time_note
from roofsmith.analysis.side_by_side import DatasheetCeiling, side_by_side
from roofsmith.analysis.spending import COLUMNS, spending_rows
from roofsmith.domain.bound import Bound
from roofsmith.domain.campaign import Campaign, Started
from roofsmith.domain.facts import Fact, FactSheet, shown
from roofsmith.domain.outcome import Passed
from roofsmith.domain.standing import limits_in_force
from roofsmith.report.arithmetic import absolute_target, limiter_words, roofline_lines
from roofsmith.report.counters import by_category, counter_rows, headlines, speed_of_light
from roofsmith.report.diagnoses import calibration_row
from roofsmith.report.headline import APART, in_full
from roofsmith.report.inspections import inspection_lines
from roofsmith.report.logs import end_block
from roofsmith.report.manifest import metric_goal
from roofsmith.report.next_steps import taken_home
from roofsmith.report.performance import (
    benchmark_command,
    judged_words,
    kernels_block,
    pairing_words,
    performance_rows,
    profiled_runs,
    profiled_words,
)
from roofsmith.report.prospects import pitfalls
from roofsmith.report.rates import ceilings_used, has_datasheet, rates, stood_on
from roofsmith.report.steps import held_profile
from roofsmith.report.summary import Summary, SummaryStep, WorkloadRow
from roofsmith.report.templating import Raw, render_markdown
from roofsmith.report.transfer import BUCKETS, transfer_rows

COMMANDS = """\
roofsmith verify .             # recompute every decision from the ledger's raw samples
roofsmith resume .             # go on after a crash or a stop; loses at most the round in flight
roofsmith campaign report .    # render every file here again"""
"""What a reader can run inside a campaign directory."""


def readme(campaign: Campaign, summary: Summary) -> str:
    """`README.md`: the task, what it runs on, the cited facts, the roofline, when to stop."""
    started = campaign.started
    return render_markdown(
        "readme.md",
        s=summary,
        started=started,
        target=started.target,
        classes=campaign.classes,
        environment=started.environment,
        device=started.environment.device,
        build=started.target.build.command_line(started.target.language),
        facts=fact_lines((*started.facts.facts(), *limits_of(started.environment.device))),
        checklist=checklist(started),
        datasheet_rows=datasheet_rows(started.facts),
        reported=f"<- {REPORTED}",
        home=taken_home(campaign),
        pitfalls=[str(pitfall) for pitfall in pitfalls(campaign)],
        state_line=state_line(summary),
        commands=COMMANDS,
        limits=limits_in_force(campaign),
        metric_goal=metric_goal,
        rate_goals=rate_goals,
        isa=isa_progress(campaign),
        limiter=limiter_words,
        stood_on=stood_on(started.bounds, started.target.ceilings),
        goal=lambda bound: Raw(absolute_target(bound, started.target.goal)),
        arithmetic=lambda bound: "\n".join(roofline_lines(bound, started.target.goal)),
    )


def performance(campaign: Campaign, summary: Summary) -> str:
    """`performance.md`: the kernels that held, and why it ended; nothing that was turned down."""
    end = summary.ending
    return render_markdown(
        "performance.md",
        s=summary,
        benchmark=benchmark_command(campaign),
        moved=judged_words(campaign.started.target),
        pairing=pairing_words(campaign.started.target),
        profiled=profiled_words(campaign.started.target),
        rows=performance_rows(campaign, summary.steps),
        kernels=_kernels(campaign),
        end=end,
        block=end_block(end),
    )


def _kernels(campaign: Campaign) -> list[tuple[str, Raw]]:
    own = campaign.baseline.candidate if campaign.baseline is not None else None
    runs = profiled_runs(campaign)
    return [(f"round {number}", kernels_block(profile, own)) for number, profile in runs]


def round_files(step: SummaryStep) -> dict[str, str]:
    """The texts of one round's folder, by name; never change once the round is recorded."""
    meaning = BUCKETS[step.hypothesis.bucket if step.hypothesis is not None else "K1"]
    counters = counter_rows(step.profile_before, step.profile_after)
    return {
        "summary.md": render_markdown("round_summary.md", step=step, transfer=transfer_rows(step)),
        "hypothesis.txt": render_markdown("hypothesis.txt", step=step, bucket_meaning=meaning),
        "correctness.md": render_markdown(
            "correctness.md",
            step=step,
            outcome="PASS" if isinstance(step.outcome, Passed) else f"FAIL ({step.status})",
            used=_used,
            inspected=() if step.inspection is None else inspection_lines(step.inspection),
        ),
        "profile_summary.md": render_markdown(
            "profile_summary.md", step=step, groups=headlines(counters), decided_by=decided_by
        ),
        "profile_details.md": render_markdown(
            "profile_details.md",
            step=step,
            counters=[row for row in counters if row.category is None],
            groups=by_category(counters),
            compiled=_compiled(step),
            kernels=kernels_block(step.profile_after),
        ),
    }


def _compiled(step: SummaryStep) -> list[str]:
    profile = step.profile_after
    return [] if profile is None else [described(kernel) for kernel in profile.resources]


def benchmark(campaign: Campaign, summary: Summary) -> str:
    """`benchmark.md`: the final kernel against the baseline, and how that was measured."""
    return render_markdown(
        "benchmark.md",
        s=summary,
        target=campaign.started.target,
        environment=campaign.started.environment,
        state_line=state_line(summary),
        achieved=lambda row: Raw(achieved(row)),
        alone=intervals(campaign),
        rates=rates,
        cited=has_datasheet(campaign.started.bounds),
        stood_on=stood_on(campaign.started.bounds, campaign.started.target.ceilings),
        ceilings=fact_lines(ceilings_used(campaign.started.bounds)),
        short=_judged_time(campaign, summary),
        apart=Raw(APART),
        light=speed_of_light(held_profile(summary)),
    )


def _judged_time(campaign: Campaign, summary: Summary) -> str | None:
    """Which time of a GPU's kernel is judged, where that matters."""
    target, rows = campaign.started.target, summary.workloads
    if campaign.started.environment.device.kind == "cpu" or target.command is not None:
        return None
    known = [(row.label, row.final_time_s) for row in rows]
    return judged_time_note([(at, t) for at, t in known if t is not None], target.timing)


@dataclass(frozen=True, slots=True)
class Intervals:
    """How sure a kernel's own times are; `-` where nobody measured them."""

    baseline: str
    final: str


def intervals(campaign: Campaign) -> Callable[[WorkloadRow], Intervals]:
    """The intervals of a workload's two times, first and last."""
    first = campaign.baseline.timings if campaign.baseline is not None else ()
    last = campaign.stopped.final_timings if campaign.stopped is not None else ()
    measure = campaign.started.target.measure
    known = [{timing.workload: timing.ci for timing in timings} for timings in (first, last)]

    def alone(row: WorkloadRow) -> Intervals:
        found = (by_label.get(row.label) for by_label in known)
        return Intervals(
            *(Raw("-") if ci is None else fmt.measured_interval(ci, measure) for ci in found)
        )

    return alone


def final_report(campaign: Campaign, summary: Summary) -> str:
    """`final_report.md`: what was reached, kept, turned down and learned."""
    return render_markdown(
        "final_report.md",
        s=summary,
        kernels=_kernels(campaign),
        isa=isa_progress(campaign),
        rests_on=in_full(campaign, summary),
        home=taken_home(campaign),
        state_line=state_line(summary),
        commands=COMMANDS,
        change=change_words,
        why=why_turned_down,
        end=summary.ending,
        left=Counter(row.outcome for row in experiments(campaign)[1:]),
        block=end_block(summary.ending),
        calibrations=[calibration_row(found) for found in summary.calibrations],
        spent=spending_rows(summary.spendings),
        spending_columns=COLUMNS,
    )


def state_line(summary: Summary) -> str:
    """Where the campaign is, in a sentence; anything unfinished says so."""
    match summary.state:
        case "in_progress":
            return "Not finished: the campaign is in progress, or was cut off (`roofsmith resume`)."
        case "interrupted":
            return f"Not finished: interrupted ({summary.stop_detail}); `roofsmith resume` goes on."
        case "finished":
            at = fmt.minute(summary.stopped_at or "")
            code = (summary.stop_code or "").replace("_", " ")
            return f"Finished {at} UTC: {code} ({summary.stop_detail})."


def why_turned_down(step: SummaryStep) -> str:
    """The reason in one line: what went wrong, or the rule that rolled it back."""
    if isinstance(step.outcome, Passed):
        return "; ".join((step.rule, *step.dispatches))
    return fmt.first_line(step.outcome.detail) or step.outcome.reason


def change_words(step: SummaryStep) -> str:
    """How much text a round changed: `+12 -3 lines in softmax.c; build changed`."""
    return (
        "; ".join(f"{file.path} +{file.added} -{file.removed}" for file in step.diff) or "no text"
    )


def achieved(row: WorkloadRow) -> str:
    """The rate that the final kernel reaches, in the unit of what limits it."""
    if not row.path:
        return fmt.UNKNOWN
    point = row.path[-1]
    if row.bound.limiter == "compute":
        return fmt.quantity(point.rate_flop_per_s, "FLOP/s")
    return fmt.quantity(point.rate_byte_per_s, "byte/s")


def checklist(started: Started) -> list[str]:
    """The facts that a campaign needs before round 1; of one that is UNKNOWN, how to give it."""
    needed = needed_facts(started.bounds, started.environment.device)
    return [
        f"known: {fact}" if fact.value is not None else f"open: {fact}: {HOW_TO_GIVE}"
        for fact in needed
    ]


def fact_lines(facts: tuple[Fact, ...]) -> str:
    """Facts in the form that audits look for, one a line."""
    return "\n".join(fmt.one_line(str(fact)) for fact in facts) or "none"


def _used(error: float, budget: float) -> Raw:
    return Raw(fmt.percent(error / budget) if budget > 0 else fmt.UNKNOWN)


def datasheet_rows(sheet: FactSheet) -> tuple[tuple[str, str, str, str], ...]:
    """Ceiling, datasheet, measured, and their ratio; none where the product isn't known."""
    if sheet.datasheet is None:
        return ()
    return tuple(_row(pair) for pair in side_by_side(sheet))


def _row(pair: DatasheetCeiling) -> tuple[str, str, str, str]:
    ratio = fmt.UNKNOWN if pair.ratio is None else fmt.percent(pair.ratio)
    return pair.name, _cell(pair.datasheet), _cell(pair.measured), ratio


def _cell(fact: Fact | None) -> str:
    """`3.35e+12 byte/s <- wiki/page.yaml:12`: as the list of facts has it."""
    if fact is None or fact.value is None or fact.citation is None:
        return fmt.UNKNOWN
    return f"{shown(fact.value, fact.unit)} <- {fact.citation.place}"


_MOST_LINES = 12
"""Of what the reference computes; the manifest has all of it."""


@dataclass(frozen=True, slots=True)
class BaselineRow:
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
