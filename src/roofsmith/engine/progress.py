"""Figures that a campaign's records add up to. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median_low

from roofsmith.analysis.roofline import geometric_mean
from roofsmith.analysis.spending import timed_events
from roofsmith.domain.campaign import Campaign, Event

RECENT_ROUNDS = 5
"""Rounds that say how long the next one will take; those before were of other proposers."""
BASELINES_PER_ROUND = 10
"""A plain judgement may take far less than it is allowed to: so many baselines, at most. Chosen:
the fewest pairs that decide take about as long where a repository's benchmark is all that runs."""
REFERENCE_CALLS = 40
"""Of a slow reference in a judgement, on each workload. Counted: 39 where it stays undecided; a
winner is looked at again, on more inputs."""
NOTABLE_S = 10.0
"""Of a judgement's time that the reference takes: from here on it is said. Chosen."""
OUTSIDE_S = 3.0
"""Of a budget: to start, and to render what ends a campaign, which no record counts. Chosen."""


def held_metric(campaign: Campaign) -> float | None:
    """A command target's metric as it last reported it of the incumbent: geometric mean of rows."""
    spec = campaign.started.target.command
    if spec is None or campaign.baseline is None:
        return None
    held = campaign.held_metrics
    return geometric_mean(reading.value for reading in held if reading.metric == spec.metric)


def expected_round_s(campaign: Campaign) -> float:
    """How long the next round will probably take: the median of the last few.

    Until there are enough of them, a plain judgement takes part, and of two in the middle the
    shorter one counts: a first round that took long (a sweep, a cold cache) says little about the
    next.
    """
    recent = [round_.wall_s for round_ in campaign.rounds[-RECENT_ROUNDS:]]
    if len(recent) < RECENT_ROUNDS:
        recent.append(_plain_judgement_s(campaign))
    return median_low(recent)


def expected_end_s(campaign: Campaign) -> float | None:
    """How long the end will take once another round was kept: the final kernel alone, beside the
    baseline and on what is held out, and the report. None in ledgers that reserved nothing."""
    baseline = campaign.baseline
    if baseline is None or baseline.measured_s is None:
        return None
    judgements = bool(campaign.kept) + (baseline.held_out is not None)
    return OUTSIDE_S + baseline.measured_s + judgements * _plain_judgement_s(campaign)


def reference_share_s(campaign: Campaign) -> float:
    """What the reference takes of a judgement; 0 where nobody timed it."""
    return REFERENCE_CALLS * (campaign.started.reference_s or 0.0)


def _plain_judgement_s(campaign: Campaign) -> float:
    """What it may take, or the shortest lately took; before any, the reference's time beside it."""
    allowed_s, baseline = campaign.started.target.keep.judge_budget_s, campaign.baseline
    if baseline is None:
        return allowed_s
    least_s = min(allowed_s, BASELINES_PER_ROUND * baseline.wall_s)
    if baseline.measured_s is None:
        return least_s
    judged = [
        r.judgement.wall_s for r in campaign.rounds[-RECENT_ROUNDS:] if r.judgement.comparison
    ]
    return max(least_s, min(judged, default=least_s + reference_share_s(campaign)))


def overhead_fraction(events: Iterable[Event]) -> float | None:
    """Share of the wall time not spent building, running or profiling kernels."""
    timed = timed_events(events)
    wall_s = sum(event.wall_s for event in timed)
    return 1.0 - sum(event.kernel_s for event in timed) / wall_s if wall_s > 0 else None
