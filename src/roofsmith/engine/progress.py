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
"""Before any judgement: of a repository's, whose benchmark is all that runs, so many baselines, at
most: the fewest pairs that decide. Chosen."""
REFERENCE_CALLS = 40
"""Of a slow reference in a judgement, on each workload. Counted: 39 where it stays undecided; a
winner is looked at again, on more inputs."""
NOTABLE_S = 10.0
"""Of a judgement's time that the reference takes: from here on it is said. Chosen."""
OUTSIDE_S = 2.0
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
        recent.append(expected_judgement_s(campaign))
    return median_low(recent)


def expected_end_s(campaign: Campaign, *, more: int = 1) -> float | None:
    """How long the end will take, without what it can do without: the final kernel alone, or beside
    the baseline where two changes are held (on a GPU, both), and the report. What never changed
    was measured as the baseline.

    Args:
        campaign: after its baseline.
        more: changes that may be kept before.

    Returns:
        None in ledgers that reserved nothing.
    """
    baseline = campaign.baseline
    if baseline is None or baseline.measured_s is None:
        return None
    held = len(campaign.kept) + more
    is_chain = held > 1
    is_alone = held == 1 or (is_chain and not is_told_by_pairs(campaign))
    alone_s = baseline.measured_s if is_alone else 0.0
    return OUTSIDE_S + alone_s + is_chain * expected_judgement_s(campaign)


def is_told_by_pairs(campaign: Campaign) -> bool:
    """Whether a kernel of this campaign, measured on its own, would say no more than in pairs."""
    first = campaign.baseline.timings if campaign.baseline is not None else ()
    has_asides = any(t.launch_time_s is not None or t.hot_time_s is not None for t in first)
    return campaign.started.target.command is None and not has_asides


def reference_share_s(campaign: Campaign) -> float:
    """What the reference takes of a judgement; 0 where nobody timed it."""
    return REFERENCE_CALLS * (campaign.started.reference_s or 0.0)


def expected_judgement_s(campaign: Campaign) -> float:
    """The least that a whole one took lately; before any, what measuring the baseline took, or, of
    a repository, several times that, and no more than it is allowed to take."""
    allowed_s, baseline = campaign.started.target.keep.judge_budget_s, campaign.baseline
    recent = (r.judgement for r in campaign.rounds[-RECENT_ROUNDS:])
    judged_s = [found.wall_s for found in recent if found.comparison]
    if judged_s or baseline is None:
        return min(judged_s, default=allowed_s)
    if baseline.measured_s is None or campaign.started.target.command is not None:
        return min(allowed_s, BASELINES_PER_ROUND * baseline.wall_s)
    return baseline.measured_s


def overhead_fraction(events: Iterable[Event]) -> float | None:
    """Share of the wall time not spent building, running or profiling kernels."""
    timed = timed_events(events)
    wall_s = sum(event.wall_s for event in timed)
    return 1.0 - sum(event.kernel_s for event in timed) / wall_s if wall_s > 0 else None
