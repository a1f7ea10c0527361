"""Counters that a change moved: why an idea failed, or what made it faster. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from roofsmith.analysis.figures import counter as shown
from roofsmith.analysis.figures import percent, speedup
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.profile import Bottleneck, Counter, Profile

MOST: Final = 5
"""Counters that are told of a round."""
LEAST_RATIO: Final = 1.1
"""Two readings of one counter differ by 2% or so; what moved by less than a tenth explains no round
that was measured at all. Chosen."""
LEAST_SHARE: Final = 0.05
"""Of a share, in points of it: 0.1% that become 0.3% cost nothing. Chosen."""
LEAST_PER_INSTRUCTION: Final = 1e-3
"""Events that are rarer, before and after, cost little even at hundreds of cycles each."""
_EVENTS: Final = ("misses", "references", "loads", "branches")
_FIXED: Final = ("allowed", "sm_count")
"""Parts of names of what no kernel moves."""


def profile_before(campaign: Campaign, round_: Round) -> Profile | None:
    if round_.incumbent_profile is not None:
        return round_.incumbent_profile
    kept = (r.profile for r in reversed(campaign.kept) if r.round < round_.round)
    first = None if campaign.baseline is None else campaign.baseline.profile
    return next((profile for profile in kept if profile is not None), first)


def bottleneck_before(campaign: Campaign, round_number: int) -> Bottleneck | None:
    """What limited the incumbent when a round was thought of."""
    kept = (r.bottleneck for r in reversed(campaign.kept) if r.round < round_number)
    first = None if campaign.baseline is None else campaign.baseline.bottleneck
    return next((found for found in kept if found is not None), first)


def moved(before: Profile | None, after: Profile | None) -> tuple[str, ...]:
    """The counters that differ most between two kernels, such as `instructions 1.30x`.

    Empty where a profiler didn't see both on the same workload.
    """
    if before is None or after is None:
        return ()
    if (before.tool, before.workload) != (after.tool, after.workload):
        return ()
    found = sorted(_movements(before, after), key=lambda one: -one[0])
    return tuple(text for _, text in found[:MOST])


def _movements(before: Profile, after: Profile) -> Iterator[tuple[float, str]]:
    """How far each counter moved, as a logarithm, and that in words."""
    for now in after.counters:
        old = before.get(now.name)
        if old is None or min(old, now.value) < 0 or any(part in now.name for part in _FIXED):
            continue
        far = _distance(old, now.value)
        if far >= math.log(LEAST_RATIO) and not _is_idle(now, old, after):
            yield far, _told(now, old)


def _distance(old: float, new: float) -> float:
    """Of two values that aren't negative; from or to nothing is as far as a hundredfold."""
    if old == new:
        return 0.0
    return abs(math.log(new / old)) if old and new else math.log(100.0)


def _is_idle(now: Counter, old: float, after: Profile) -> bool:
    """Whether so little of it was there, before and after, that it costs nothing."""
    if _is_share(now):
        return abs(now.value - old) < LEAST_SHARE
    instructions = after.get("instructions")
    is_event = now.name.endswith(_EVENTS) and instructions is not None
    return is_event and max(old, now.value) < LEAST_PER_INSTRUCTION * (instructions or 0.0)


def _is_share(one: Counter) -> bool:
    return shown(0.5, one.unit, one.name) == percent(0.5)


def _told(now: Counter, old: float) -> str:
    if _is_share(now) or not old or not now.value:
        ends = (shown(value, now.unit, now.name) for value in (old, now.value))
        return f"{now.name} {' to '.join(ends)}"
    return f"{now.name} {speedup(now.value / old)}"
