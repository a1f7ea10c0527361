"""Where a campaign is: times by workload, what limits are left, where else to go. Pure."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Final

from roofsmith.analysis.best_known import best_known, results_of
from roofsmith.analysis.heard import time_intervals
from roofsmith.analysis.regressions import regressions_in_a_row
from roofsmith.analysis.spending import spent_s
from roofsmith.analysis.stagnation import library_directions, open_directions
from roofsmith.analysis.weights import shares
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.ending import StopCode
from roofsmith.domain.standing import limits_in_force
from roofsmith.ports import Brief

_RAISED: Final[dict[StopCode, str]] = {
    "max_iterations": "allow more with --max-iterations N",
    "budget": "allow more with --budget-s S",
    "tokens": "allow more with --max-tokens N",
    "cost": "allow more with --max-cost USD",
}


def way_on(code: StopCode, directory: Path) -> str | None:
    """How a round is made room for after a limit; None where nothing is in the way of one."""
    if code == "regressions":
        restart = f"roofsmith campaign memory restart {shlex.quote(str(directory))}"
        return f"have it forget a half of its rounds: {restart}"
    return _RAISED.get(code)


def ended(campaign: Campaign, directory: Path) -> dict[str, str] | None:
    """Why a campaign has stopped, and what `tell` does then; None: it goes on."""
    if (stop := campaign.stopped) is None:
        return None
    way = way_on(stop.code, directory)
    judged = "A change that you tell is judged nevertheless, as far as limits allow."
    told = judged if way is None else f"No change is judged until you {way}."
    return {"code": stop.code, "detail": stop.detail, "next": told}


def workload_rows(brief: Brief) -> list[dict[str, Any]]:
    """The incumbent on every workload, slowest first; values as the target's measure has them."""
    campaign, goal = brief.campaign, brief.campaign.started.target.goal
    measure, times = campaign.started.target.measure, campaign.times_s
    dims = {w.label: w.dims for w in campaign.started.target.workloads}
    classes = {label: found.name for found in brief.classes for label in found.workloads}
    intervals, total = incumbent_intervals(campaign), sum(times.values())
    weights = shares(campaign.started.target)
    rows = []
    for number, bound in enumerate(brief.bounds, start=1):
        recorded, floor = times.get(bound.workload), bound.floor_time_s
        rows.append(
            {
                "id": f"B{number}",
                "workload": bound.workload,
                "dims": dims.get(bound.workload, {}),
                "class": classes.get(bound.workload, ""),
                "recorded": recorded,
                "time_s": recorded if measure.is_time else None,
                "value": None if recorded is None else measure.value(recorded),
                "ci": intervals.get(bound.workload),
                "floor_s": floor,
                "attainable_s": bound.attainable_s,
                "goal_s": None
                if floor is None or goal.roofline_fraction is None
                else (bound.attainable_s or floor) / goal.roofline_fraction,
                "roofline_fraction": floor / recorded if floor is not None and recorded else None,
                "share": weights[bound.workload]
                if bound.workload in weights
                else recorded / total
                if recorded and measure.is_time and total
                else None,
                "limiter": "bytes only" if bound.bytes_only else bound.limiter,
                "working_set": bound.place,
            }
        )
    return sorted(rows, key=lambda row: -float(row["recorded"] or 0.0))


def incumbent_intervals(campaign: Campaign) -> dict[str, tuple[float, float]]:
    """Of the incumbent's time by workload, as records hold it; left out where there is none."""
    if not campaign.kept:
        timings = campaign.baseline.timings if campaign.baseline is not None else ()
        return {timing.workload: timing.ci for timing in timings}
    judgement, rate = campaign.kept[-1].judgement, campaign.started.target.keep.error_rate
    compared = judgement.comparison.workloads if judgement.comparison is not None else ()
    found = {one.workload: time_intervals(judgement, one, rate)[1] for one in compared}
    return {label: ends for label, ends in found.items() if ends is not None}


def limits_left(brief: Brief) -> dict[str, Any]:
    """What the limits in force still allow; None: there is no such limit."""
    campaign, limits = brief.campaign, limits_in_force(brief.campaign)
    judged = sum(r.repairs is None and r.splits is None for r in campaign.rounds)
    asides = [aside.event for aside in campaign.asides]
    spent = spent_s((campaign.baseline, *campaign.rounds, *asides))
    tokens, cost = campaign.tokens, campaign.cost_usd
    slower = regressions_in_a_row(campaign.since_restart, campaign.started.target.stop.max_repairs)
    return {
        "rounds": None if limits.max_iterations is None else max(0, limits.max_iterations - judged),
        "rounds_judged": judged,
        "seconds": None if limits.budget_s is None else max(0.0, limits.budget_s - spent),
        "seconds_spent": spent,
        "tokens": None if limits.max_tokens is None else max(0, limits.max_tokens - tokens),
        "tokens_spent": tokens,
        "cost_usd": None if limits.max_cost_usd is None else max(0.0, limits.max_cost_usd - cost),
        "cost_usd_spent": cost,
        "regressions_in_a_row": len(slower),
        "regressions_allowed": limits.max_consecutive_regressions,
        "repairs": None if brief.repair is None else brief.repair.attempts_left,
    }


def directions(brief: Brief) -> dict[str, Any]:
    """Where else to go: kinds of changes, what is known to be possible, and where to read of it."""
    seen = [brief.bottleneck]
    if brief.diagnosis is not None:
        seen += [found.bottleneck for found in brief.diagnosis.material.profiles]
    known, yardsticks = best_known(brief.campaign), brief.campaign.yardsticks
    return {
        "categories": [
            {
                "category": found.category,
                "what": found.what,
                "because": found.because,
                "seen": found.seen,
            }
            for found in open_directions(brief.campaign, seen)
        ],
        "measured": [
            {
                "name": one.name,
                "speedup": one.speedup,
                "ci": list(one.ci),
                "beside": _round_of(yardsticks.incumbent_id, brief.campaign),
                "holds": yardsticks.incumbent_id == brief.incumbent.id,
            }
            for one in results_of(yardsticks)
        ]
        if yardsticks is not None
        else [],
        "pointers": [one.model_dump(mode="json") for one in known.pointers],
    }


def from_library(brief: Brief) -> list[dict[str, Any]]:
    """What the library says of the bottleneck, and after rollbacks of those of other classes."""
    seen = [brief.bottleneck.kind]
    if brief.diagnosis is not None:
        seen += [found.bottleneck.kind for found in brief.diagnosis.material.profiles]
    return [one.model_dump(mode="json") for one in library_directions(brief.campaign, seen)]


def _round_of(incumbent_id: str, campaign: Campaign) -> int:
    """The round that made a kernel which held once; 1 is the baseline."""
    return next((r.round for r in campaign.kept if r.candidate.id == incumbent_id), 1)
