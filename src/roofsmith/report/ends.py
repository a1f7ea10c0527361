"""How a campaign ended: the conditions as they stood, and the regressions before it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import geometric_mean

from roofsmith.analysis import kernel_table
from roofsmith.analysis.fractions import held_rate, rate_goals
from roofsmith.analysis.regressions import WINDOW, losing_classes, regressions_in_a_row
from roofsmith.domain.campaign import Campaign, Masked, Stopped
from roofsmith.domain.ending import StopCode
from roofsmith.domain.profile import KERNEL_TIME
from roofsmith.domain.standing import limits_in_force
from roofsmith.report.reported import notice
from roofsmith.report.summary import Ending, Regression, SummaryStep
from roofsmith.report.templating import render_markdown

_NAMES: dict[StopCode, str] = {
    "goal_reached": "T1 goal",
    "efficiency_reached": "T2 efficiency",
    "max_iterations": "T3 rounds",
    "interrupted": "T4 user",
    "regressions": "regressions in a row",
    "budget": "time",
    "tokens": "tokens",
    "cost": "cost",
    "out_of_ideas": "ideas",
    "no_idle_gpu": "idle GPU",
}

PAUSES: tuple[StopCode, ...] = ("interrupted", "no_idle_gpu")
"""Ends after which a campaign isn't over: what was in flight is taken up again."""


def endings(campaign: Campaign, steps: tuple[SummaryStep, ...]) -> tuple[Ending, ...]:
    """Every stop of a campaign, in order; one depends on nothing that came after it."""
    by_number = {step.number: step for step in steps}
    max_repairs = campaign.started.target.stop.max_repairs
    found, restarted_after = [], 1
    for aside in campaign.asides:
        last, event = aside.after_round, aside.event
        if isinstance(event, Masked) and event.by == "restart":
            restarted_after = last
        if not isinstance(event, Stopped):
            continue
        rounds = [r for r in campaign.rounds if restarted_after < r.round <= last]
        held = [s for s in steps if s.number <= last and s.mark in ("baseline", "kept")]
        in_a_row = regressions_in_a_row(rounds, max_repairs)[-WINDOW:]
        found.append(
            Ending(
                after_round=last,
                code=event.code,
                detail=event.detail,
                at=event.at,
                checks=tuple(
                    (name, check)
                    for code, name in _NAMES.items()
                    for check in event.checks
                    if check.code == code
                ),
                held=held[-1] if held else None,
                regressions=tuple(_regression(by_number[r.round]) for r in in_a_row),
                measure=campaign.started.target.measure,
            )
        )
    return tuple(found)


def state(campaign: Campaign, steps: tuple[SummaryStep, ...]) -> str:
    """`state.md`: what holds, and the regressions in a row, after whatever was recorded last."""
    by_number = {step.number: step for step in steps}
    held = [s for s in steps if s.mark in ("baseline", "kept")]
    commits = {s.candidate_id: s.commit for s in held}
    max_repairs = campaign.started.target.stop.max_repairs
    found = regressions_in_a_row(campaign.since_restart, max_repairs)
    rows = [_regression(by_number[r.round]) for r in found[-WINDOW:]]
    return render_markdown(
        "state.md",
        campaign=campaign,
        self_reported=notice(campaign.started.target),
        limits=limits_in_force(campaign),
        measure=campaign.started.target.measure,
        at=steps[-1].at if steps else "",
        held=held[-1] if held else None,
        count=len(found),
        rates=list(_rates(campaign)),
        regressions=[
            (r, commits.get(r.incumbent_id) or "-", by_number[r.number].candidate_id) for r in rows
        ],
        losing=losing_classes(campaign),
    )


def _rates(campaign: Campaign) -> Iterator[tuple[str, str, str]]:
    first = campaign.model_copy(update={"rounds": ()})
    for work, _, name in rate_goals(campaign.started.target.goal):
        rates = (held_rate(one, work) for one in (first, campaign))
        then, now = (f"{rate:.4g} {name}" if rate else "UNKNOWN" for rate in rates)
        yield name, then, now


def profiled_s(step: SummaryStep) -> float | None:
    """The profiler's own time of a candidate."""
    return step.profile_after.get(KERNEL_TIME) if step.profile_after is not None else None


def _regression(step: SummaryStep) -> Regression:
    compared = step.comparison.workloads if step.comparison is not None else ()
    before = step.profile_before
    return Regression(
        number=step.number,
        at=step.at,
        incumbent_id=step.incumbent_id or "",
        title=step.title,
        files=tuple(change.path for change in step.diff),
        before_s=geometric_mean(w.incumbent_time_s for w in compared) if compared else None,
        after_s=geometric_mean(w.candidate_time_s for w in compared) if compared else None,
        profiled_before_s=before.get(KERNEL_TIME) if before is not None else None,
        profiled_after_s=profiled_s(step),
        delta=step.measure.change(step.ratio.value) if step.ratio is not None else None,
        notes=f"{step.rule}{_seen(step)}",
    )


def _seen(step: SummaryStep) -> str:
    found, profile = step.bottleneck_after, step.profile_after
    if found is None:
        return ""
    said = f"; {found.kind}-bound" + (f": {found.evidence[0]}" if found.evidence else "")
    hottest = "" if profile is None else kernel_table.hottest(profile.kernels)
    return f"{said}; hottest: {hottest}" if hottest else said
