"""Which times are impossible on a machine that did more before than it does now. Pure."""

from __future__ import annotations

from roofsmith.analysis.roofline import LARGEST_SLACK
from roofsmith.domain.bound import Bound


def proven_by(today: Bound, ever: Bound) -> Bound:
    """Today's floor, below which a time is impossible only if the highest ceilings say so.

    Args:
        today: under what the machine does now.
        ever: of the same workload, under the highest that it ever did.
    """
    if today == ever or not today.floor_time_s or not ever.floor_time_s:
        return today
    least_s = (1 - ever.slack) * ever.floor_time_s
    slack = min(max(1 - least_s / today.floor_time_s, 0.0), LARGEST_SLACK)
    return today.model_copy(update={"slack": slack, "proof": ever.proof})
