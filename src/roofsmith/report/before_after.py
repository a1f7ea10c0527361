"""Absolute times of a judgement: the incumbent's and the candidate's on a workload. Pure."""

from __future__ import annotations

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.heard import Ends, time_intervals
from roofsmith.domain.comparison import Judgement, WorkloadComparison
from roofsmith.domain.measure import Measure


def before_and_after(
    judgement: Judgement,
    one: WorkloadComparison,
    measure: Measure,
    error_rate: float,
    *,
    bytes_only: bool = False,
) -> tuple[str, str, str]:
    """Time or metric before and after, each with its interval, and the roofline's shares."""
    before, after = time_intervals(judgement, one, error_rate)
    shares = (
        fmt.share(None if one.floor_time_s is None else one.floor_time_s / time_s, bytes_only)
        for time_s in (one.incumbent_time_s, one.candidate_time_s)
    )
    return (
        _with_interval(one.incumbent_time_s, before, measure),
        _with_interval(one.candidate_time_s, after, measure),
        " → ".join(shares) if one.floor_time_s is not None else fmt.UNKNOWN,
    )


def _with_interval(recorded: float, ci: Ends | None, measure: Measure) -> str:
    said = fmt.measured(recorded, measure)
    return said if ci is None else f"{said} {fmt.measured_interval(ci, measure)}"
