"""What a dispatch says, to hold merged kernels against."""

from __future__ import annotations

import math
from collections.abc import Mapping

from roofsmith.domain.dispatch import Dispatch, Rule, Threshold


def holds(rule: Rule, dims: Mapping[str, int]) -> bool:
    if isinstance(rule, Threshold):
        size = math.prod(dims[name] for name in rule.dims)
        return size >= rule.bound if rule.side == "at_least" else size <= rule.bound
    return any(all(dims[name] == at for name, at in p.items()) for p in rule.points)


def runs_new(dispatch: Dispatch, dims: Mapping[str, int]) -> bool:
    inside = all(low <= dims[name] <= high for name, (low, high) in dispatch.within.items())
    return inside and holds(dispatch.rule, dims)
