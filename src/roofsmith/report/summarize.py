"""From a campaign to its summary. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import geometric_mean

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.ablation import CarriedGain, carried
from roofsmith.analysis.calibration import calibrations
from roofsmith.analysis.final import was_alone
from roofsmith.analysis.fractions import final_fraction, fraction_of_timings
from roofsmith.analysis.spending import spendings
from roofsmith.domain.bound import Bound
from roofsmith.domain.campaign import Campaign, Profiled, Round, Started, Stopped
from roofsmith.domain.comparison import Comparison, ErrorReport, Timing
from roofsmith.domain.diagnosis import Diagnosed
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.target import Target
from roofsmith.domain.workload import AS_DRAWN, ConfigClass, Workload
from roofsmith.report.diagnoses import diagnosis_path
from roofsmith.report.ends import PAUSES, endings
from roofsmith.report.headline import leading, unseen_of
from roofsmith.report.next_steps import next_steps
from roofsmith.report.reported import notice, overall_metric_rows, task_lines
from roofsmith.report.standings import campaign_yardsticks, standings
from roofsmith.report.steps import counting_ratio, mark_of, steps_of
from roofsmith.report.summary import (
    ClassRow,
    Ratio,
    RooflinePoint,
    State,
    Summary,
    SummaryStep,
    Totals,
    WorkloadRow,
)
from roofsmith.report.transfer import LARGEST_GAP, attribution, bucket_shares


def kernel_threads(started: Started) -> int | None:
    """Processors that kernels of a campaign may use; None on a GPU."""
    device = started.environment.device
    return started.target.threads or device.cores if device.kind == "cpu" else None


def summarize(campaign: Campaign, wanted: Callable[[Round], bool] = lambda _: True) -> Summary:
    """Everything that reports, tables and `--json` show of a campaign.

    `wanted`: rounds that steps are made of, as for a page; all that were kept among them.
    """
    started, stopped = campaign.started, campaign.stopped
    target = started.target
    steps = tuple(steps_of(campaign, wanted))
    held = tuple(_held(steps))
    direct = leading(campaign, held[-1] if held else None)
    compared = direct.comparison if direct is not None else None
    workloads = tuple(
        _workload_row(campaign, steps, workload, compared) for workload in target.workloads
    )
    totals = _totals(campaign)
    fraction, baseline_fraction = _fractions(campaign)
    classes = tuple(_class_row(config_class, workloads) for config_class in campaign.classes)
    return Summary(
        campaign=started.campaign,
        refusals=campaign.refusals,
        name=target.name,
        family=target.family,
        kernel_path=_called(target),
        language=target.language,
        threads=kernel_threads(started),
        device=started.environment.device.name,
        started_at=started.at,
        state=_state(campaign),
        stop_code=stopped.code if stopped else None,
        stop_detail=stopped.detail if stopped else None,
        stopped_at=stopped.at if stopped else None,
        speedup=held[-1] if held else None,
        alone=_alone(campaign),
        measured=(measured := _measured(campaign)),
        unseen=unseen_of(
            stopped.generalization if stopped else None,
            campaign.total_speedup if measured is None else measured.value,
        ),
        is_direct=direct is not None,
        is_overclaimed=measured is not None
        and campaign.total_speedup - measured.ci[1] > LARGEST_GAP,
        fraction=fraction,
        baseline_fraction=baseline_fraction,
        goal_fraction=target.goal.roofline_fraction,
        limit_speedup=1 / baseline_fraction
        if baseline_fraction and not started.bytes_only
        else None,
        bytes_only=started.bytes_only,
        limiter=_limiter(started.bounds),
        candidate_id=campaign.incumbent.id,
        steps=steps,
        workloads=workloads,
        classes=classes,
        final_errors=_final_errors(steps),
        buckets=tuple(bucket_shares(steps)),
        attribution=attribution(steps, campaign.total_speedup),
        totals=totals,
        next_steps=next_steps(campaign, steps, workloads, fraction),
        yardsticks=campaign_yardsticks(campaign),
        held=held,
        standings=standings(campaign, workloads, classes, _final_name(steps)),
        self_reported=notice(target),
        editable=started.editable,
        measure=target.measure,
        task=task_lines(target),
        metrics=overall_metric_rows(campaign),
        calibrations=tuple(
            found for found in calibrations(campaign) if found.measured or found.counters
        ),
        diagnoses=tuple(
            (event.after_round, event.level, diagnosis_path(event)) for event in campaign.diagnoses
        ),
        endings=endings(campaign, steps),
        spendings=spendings(campaign),
        carried=carried_lines(campaign),
    )


def product(ratios: Iterable[Ratio]) -> Ratio:
    """The product of ratios, with the product of their intervals' ends.

    Holds at once for all factors within their own intervals; wider than it has to be, never
    narrower.
    """
    value, low, high = 1.0, 1.0, 1.0
    for ratio in ratios:
        value, low, high = value * ratio.value, low * ratio.ci[0], high * ratio.ci[1]
    return Ratio(value, (low, high))


def _called(target: Target) -> str:
    """What the kernel is called: its file; of a repository with several, the target's name."""
    is_one = target.command is None or not target.includes
    return target.kernel.path if is_one else target.name


def _state(campaign: Campaign) -> State:
    if campaign.stopped is None:
        return "in_progress"
    return "interrupted" if campaign.stopped.code in PAUSES else "finished"


def _held(steps: Sequence[SummaryStep]) -> Iterator[Ratio]:
    """The total after every step. The record's own leads; the interval is carried over to it."""
    kept = Ratio(1.0, (1.0, 1.0))
    for step in steps:
        if step.mark == "kept" and step.counting_ratio is not None:
            kept = product((kept, step.counting_ratio))
        low, high = (end / kept.value for end in kept.ci)
        yield Ratio(1.0, (low, high)).over(step.total_speedup)


def _final_name(steps: Sequence[SummaryStep]) -> str | None:
    """Of the kernel that holds; None while the baseline does."""
    kept = [step.number for step in steps if step.mark == "kept"]
    return f"final, round {kept[-1]}" if kept else None


def _measured(campaign: Campaign) -> Ratio | None:
    found = campaign.stopped.against_baseline if campaign.stopped is not None else None
    return None if found is None else counting_ratio(found)


def _alone(campaign: Campaign) -> float | None:
    stopped, keep = campaign.stopped, campaign.started.target.keep
    if campaign.baseline is None or stopped is None or not was_alone(stopped, keep.error_rate):
        return None
    final = {timing.workload: timing.time_s for timing in stopped.final_timings}
    ratios = [
        timing.time_s / final[timing.workload]
        for timing in campaign.baseline.timings
        if timing.workload in final
    ]
    return geometric_mean(ratios) if ratios else None


def _fractions(campaign: Campaign) -> tuple[float | None, float | None]:
    if campaign.baseline is None:
        return None, None
    return final_fraction(campaign), fraction_of_timings(campaign.baseline.timings)


def _limiter(bounds: tuple[Bound, ...]) -> str:
    limiters = {bound.limiter for bound in bounds}
    if len(limiters) == 1:
        return limiters.pop()
    return "unknown" if "unknown" in limiters or not limiters else "mixed"


def _workload_row(
    campaign: Campaign,
    steps: tuple[SummaryStep, ...],
    workload: Workload,
    direct: Comparison | None,
) -> WorkloadRow:
    label = workload.label
    bound = campaign.bound(label)
    accepted = [s for s in steps if s.mark in ("baseline", "kept") and label in s.times_s]
    times = [(step.number, step.times_s[label]) for step in accepted]
    last = _final_timing(campaign, label)
    if last is not None and times:
        times[-1] = (times[-1][0], last.time_s)
    path = tuple(roofline_point(number, time_s, bound) for number, time_s in times)
    final_s = path[-1].time_s if path else None
    return WorkloadRow(
        label=label,
        dims=workload.dims,
        config_class=_class_name(campaign, workload),
        baseline_time_s=accepted[0].times_s[label] if accepted else None,
        final_time_s=final_s,
        speedup=_ratio_on(label, steps, direct) if accepted else None,
        floor_time_s=bound.floor_time_s,
        fraction=path[-1].fraction if path else None,
        bound=bound,
        path=path,
        hot_time_s=last.hot_time_s if last else None,
        launch_time_s=last.launch_time_s if last else None,
    )


def _final_timing(campaign: Campaign, label: str) -> Timing | None:
    timings = campaign.stopped.final_timings if campaign.stopped is not None else ()
    return next((timing for timing in timings if timing.workload == label), None)


def _class_name(campaign: Campaign, workload: Workload) -> str:
    for config_class in campaign.classes:
        if workload.label in config_class.workloads:
            return config_class.name
    return workload.config_class or "all"


def roofline_point(number: int, time_s: float, bound: Bound) -> RooflinePoint:
    """Where a time puts a kernel."""
    flops, moved = bound.cost.flops, bound.cost.total_bytes
    return RooflinePoint(
        number=number,
        time_s=time_s,
        rate_flop_per_s=flops / time_s if flops is not None else None,
        rate_byte_per_s=moved / time_s if moved is not None else None,
        fraction=bound.floor_time_s / time_s if bound.floor_time_s is not None else None,
    )


def _ratio_on(label: str, steps: tuple[SummaryStep, ...], direct: Comparison | None) -> Ratio:
    links = [direct] if direct else [step.comparison for step in steps if step.mark == "kept"]
    return product(
        Ratio(part.estimate.speedup, part.estimate.ci)
        for comparison in links
        if comparison is not None
        for part in comparison.workloads
        if part.workload == label
    )


def _class_row(config_class: ConfigClass, workloads: tuple[WorkloadRow, ...]) -> ClassRow:
    members = [row for row in workloads if row.label in config_class.workloads]
    ratios = [row.speedup for row in members if row.speedup is not None]
    fractions = [row.fraction for row in members if row.fraction is not None]
    return ClassRow(
        name=config_class.name,
        reason=config_class.reason,
        workloads=config_class.workloads,
        speedup=_mean(ratios) if ratios and len(ratios) == len(members) else None,
        fraction=geometric_mean(fractions)
        if fractions and len(fractions) == len(members)
        else None,
    )


def _mean(ratios: list[Ratio]) -> Ratio:
    """Geometric mean; of the intervals' ends too."""
    return Ratio(
        geometric_mean(ratio.value for ratio in ratios),
        (
            geometric_mean(ratio.ci[0] for ratio in ratios),
            geometric_mean(ratio.ci[1] for ratio in ratios),
        ),
    )


def _final_errors(steps: tuple[SummaryStep, ...]) -> tuple[ErrorReport, ...]:
    for step in reversed(steps):
        if step.mark in ("baseline", "kept"):
            return tuple(error for error in step.errors if error.inputs == AS_DRAWN)
    return ()


def _totals(campaign: Campaign) -> Totals:
    marks = [mark_of(round_)[0] for round_ in campaign.rounds]
    between = [
        a.event
        for a in campaign.asides
        if isinstance(a.event, Stopped | Diagnosed | Profiled | Refusal)
    ]
    laps = [*([campaign.baseline] if campaign.baseline else []), *campaign.rounds, *between]
    return Totals(
        tried=len(campaign.rounds),
        kept=marks.count("kept"),
        rejected=marks.count("rejected"),
        failed=marks.count("failed"),
        screened=sum(len(round_.screened) for round_ in campaign.rounds),
        wall_s=math.fsum(lap.wall_s for lap in laps),
        kernel_s=math.fsum(lap.kernel_s for lap in laps),
    )


def carried_lines(campaign: Campaign) -> tuple[str, ...]:
    """A line for each kept change; none where nothing was left out to see."""
    return tuple(
        f"round {one.change.round} ({one.change.hypothesis.statement}): {_finding(one)}"
        for one in carried(campaign)
    )


def _finding(one: CarriedGain) -> str:
    ratio = "" if one.speedup is None or one.ci is None else fmt.ratio(one.speedup, one.ci)
    match one.finding:
        case "carries":
            return f"carries {ratio}, by round {one.seen_in}"
        case "left_out":
            return f"carries nothing any more ({ratio}): left out in round {one.seen_in}"
        case "open":
            return f"open, {ratio or 'not measured'} in round {one.seen_in}: it stays"
        case "needed":
            return f"the kernel fails without it, in round {one.seen_in}"
        case "built_upon":
            return "not taken out: later changes touch the same lines"
        case "unseen":
            return "not looked at: no room was left within the limits"
