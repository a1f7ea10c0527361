"""What a judgement's samples say again: by the workers' clocks, and by the judge's. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from roofsmith.analysis.bounds import CANDIDATE, INCUMBENT, time_s
from roofsmith.analysis.clock import Agreement, Clocked, agreement, by_clock
from roofsmith.analysis.compare import compare
from roofsmith.analysis.statistics import median_interval
from roofsmith.domain.campaign import Started
from roofsmith.domain.comparison import Comparison, Judgement, PairSample, WorkloadComparison
from roofsmith.domain.target import KeepPolicy


@dataclass(frozen=True, slots=True)
class Heard:
    """Both clocks, and how they agree."""

    claimed: Comparison | None
    """By the workers' clocks; None: no pair was had."""
    clocked: Clocked | None = None
    """By the judge's own; None: it wasn't asked, or saw nothing valid."""
    seen: Agreement | None = None
    """None: the judge's clock wasn't asked."""


def heard(judgement: Judgement, started: Started) -> Heard:
    """Both clocks' comparisons, by a campaign's own classes, bounds and policy."""
    claimed = claimed_by(judgement, started)
    if claimed is None or not judgement.clock:
        return Heard(claimed)
    target = started.target
    floors = {bound.workload: bound.floor_time_s for bound in started.bounds}
    clocked = by_clock(judgement.clock, target.workloads, started.classes, floors, target.keep)
    return Heard(claimed, clocked, agreement(claimed, clocked))


def claimed_by(judgement: Judgement, started: Started) -> Comparison | None:
    """What the measurement that counts says by the workers' clocks: the second, if there is one."""
    if not judgement.confirmation:
        return first_look(judgement, started)
    earlier = [one.confirmation for one in judgement.earlier]
    return _recompared(judgement.confirmation, earlier, started, started.target.keep)


def first_look(judgement: Judgement, started: Started) -> Comparison | None:
    """What the first measurement's samples say, by the campaign's own classes and bounds."""
    earlier = [one.samples for one in judgement.earlier]
    return _recompared(judgement.samples, earlier, started, started.target.keep.first)


def _recompared(
    samples: Sequence[PairSample],
    earlier: Sequence[Sequence[PairSample]],
    started: Started,
    policy: KeepPolicy,
) -> Comparison | None:
    if not samples:
        return None
    floors = {bound.workload: bound.floor_time_s for bound in started.bounds}
    return compare(samples, started.target.workloads, started.classes, floors, policy, earlier)


Ends = tuple[float, float]
"""Of an interval, in seconds."""


def time_intervals(
    judgement: Judgement, one: WorkloadComparison, error_rate: float
) -> tuple[Ends | None, Ends | None]:
    """Of the incumbent's and the candidate's median time on a workload; None: too few pairs."""
    counting = judgement.confirmation or judgement.samples
    incumbents, candidates = _segments_s(counting, one.workload)
    if not candidates or median(candidates) != one.candidate_time_s:  # the judge's clock counts
        incumbents, candidates = _segments_s(judgement.clock, one.workload)
    return _ends(incumbents, error_rate), _ends(candidates, error_rate)


def _segments_s(samples: Sequence[PairSample], label: str) -> tuple[list[float], list[float]]:
    valid = [pair for pair in samples if pair.void is None and pair.workload == label]
    return (
        [time_s(pair, INCUMBENT)[1] for pair in valid],
        [time_s(pair, CANDIDATE)[1] for pair in valid],
    )


def _ends(times_s: Sequence[float], error_rate: float) -> Ends | None:
    low, high = median_interval(times_s, error_rate)
    return (low, high) if 0 < low <= high < float("inf") else None
