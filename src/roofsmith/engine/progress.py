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


def _plain_judgement_s(campaign: Campaign) -> float:
    allowed_s = campaign.started.target.keep.judge_budget_s
    if campaign.baseline is None:
        return allowed_s
    return min(allowed_s, BASELINES_PER_ROUND * campaign.baseline.wall_s)


def overhead_fraction(events: Iterable[Event]) -> float | None:
    """Share of the wall time not spent building, running or profiling kernels."""
    timed = timed_events(events)
    wall_s = sum(event.wall_s for event in timed)
    return 1.0 - sum(event.kernel_s for event in timed) / wall_s if wall_s > 0 else None
