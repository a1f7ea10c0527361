"""Gains that disturbed pairs left unproven: the machine speaks against them alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from roofsmith.analysis.bounds import is_bounded, waiting_of
from roofsmith.domain.campaign import RolledBack, Round
from roofsmith.domain.comparison import Judgement, PairSample
from roofsmith.domain.outcome import Passed, Unstable
from roofsmith.domain.target import KeepPolicy

MANY: Final = 0.25
"""Share of disturbed pairs from which they are a cause of what wasn't decided. Chosen."""

_OTHERS: Final = ("interference", "device_busy")
"""Why a judgement ended where others were at work on the device."""


def has_many_disturbed(pairs: Sequence[PairSample]) -> bool:
    """Whether so many pairs are void or bounds that they may be why nothing was decided."""
    return sum(pair.void is not None or is_bounded(pair) for pair in pairs) >= MANY * len(pairs) > 0


def waiting_in(judgements: Sequence[Judgement]) -> str:
    """How many pairs others disturbed, and how much, for people; empty if that is no cause."""
    pairs = [pair for one in judgements for pair in (*one.samples, *one.confirmation)]
    return waiting_of(pairs) if has_many_disturbed(pairs) else ""


def is_unproven(round_: Round, policy: KeepPolicy) -> bool:
    """Whether disturbed pairs alone rolled a round back that looks like a gain if like anything.

    Others kept the device; no pair counts at all; or what should gain is beyond the noise band, and
    its interval too wide to prove it, or the judge's own clock has nothing to say.
    """
    judgement, decision = round_.judgement, round_.decision
    if isinstance(judgement.outcome, Unstable) and judgement.outcome.reason in _OTHERS:
        return True
    if not isinstance(decision, RolledBack) or not isinstance(judgement.outcome, Passed):
        return False
    measurements = (judgement.samples, judgement.confirmation, judgement.clock)
    if decision.regression or decision.diverged or not any(map(has_many_disturbed, measurements)):
        return False
    if judgement.comparison is None:
        return True
    aim = judgement.comparison.of(round_.hypothesis.target_class)
    if aim is None or aim.speedup <= 1 + policy.noise_band:
        return False
    return judgement.verdict == "unverified" or aim.verdict == "inconclusive"


def promise(round_: Round) -> tuple[float, float]:
    """What an unproven gain is at least, and is likely: changes are ranked by it."""
    found = round_.judgement.comparison
    aim = None if found is None else found.of(round_.hypothesis.target_class)
    return (0.0, 0.0) if aim is None else (aim.ci[0], aim.speedup)
