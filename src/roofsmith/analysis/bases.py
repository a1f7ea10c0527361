"""Undecided rounds, on whose kernels the next change may be built. Pure.

Nothing unproven is kept: whatever is built on them is judged against the incumbent, so that all of
it is settled at once.
"""

from __future__ import annotations

from typing import Final

from roofsmith.domain.campaign import Campaign, RolledBack, Round
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.outcome import Passed
from roofsmith.domain.proposal import Proposal

MOST_UNDECIDED: Final = 3
"""Undecided changes that a kernel holds before one is judged on top of them. Chosen: what is rolled
back with them is no more than one would try again singly."""


def bases(campaign: Campaign) -> tuple[Round, ...]:
    """The rounds that the next change may build on, the one that looks best first."""
    fit = (r for r in campaign.rounds if why_no_base(campaign, r.round) is None)
    return tuple(sorted(fit, key=lambda round_: -_speedup(round_)))


def bundle(campaign: Campaign, base: int | None) -> tuple[Round, ...]:
    """The undecided rounds whose changes the kernel of a base holds, the oldest first."""
    found = list[Round]()
    while base is not None and (round_ := _round(campaign, base)) is not None:
        found.append(round_)
        base = round_.base
    return tuple(reversed(found))


def why_no_base(campaign: Campaign, number: int) -> str | None:
    """Why nothing may be built on a round's kernel; None if it may be."""
    round_ = _round(campaign, number)
    if round_ is None:
        return f"there is no round {number} that was judged"
    if number in campaign.masked:
        return f"round {number} is masked from planning"
    if not _is_undecided(round_, campaign.started.target.keep.noise_band):
        return f"round {number} isn't undecided: {round_.decision.rule}"
    if round_.incumbent_id != campaign.incumbent.id:
        return f"round {number} was built on another kernel than the one that holds now"
    if len(bundle(campaign, number)) > MOST_UNDECIDED:
        return f"round {number} holds more than {MOST_UNDECIDED} undecided changes already"
    return None


def kernel_under(campaign: Campaign, base: int | None) -> Candidate:
    """What a change is made to: the kernel of its base, or without one the incumbent."""
    round_ = None if base is None else _round(campaign, base)
    return campaign.incumbent if round_ is None else round_.candidate


def base_of(campaign: Campaign, made: Proposal | Round, repairs: int | None) -> int | None:
    """What a proposal or a round builds on: a repair and a dispatch on what their round does."""
    origin = repairs if repairs is not None else made.splits
    if origin is None:
        return made.base
    round_ = _round(campaign, origin)
    return None if round_ is None else round_.base


def _is_undecided(round_: Round, noise_band: float) -> bool:
    """Correct, no gain beyond the band is proven, and no loss, nor does one beyond it show."""
    judgement, decision = round_.judgement, round_.decision
    if not isinstance(judgement.outcome, Passed) or not isinstance(decision, RolledBack):
        return False
    if decision.regression or decision.diverged or judgement.comparison is None:
        return False
    overall = judgement.comparison.overall
    may_gain = overall.ci[1] >= 1.0 and overall.speedup >= 1.0 - noise_band
    return judgement.verdict in ("tie", "inconclusive") and may_gain


def _speedup(round_: Round) -> float:
    comparison = round_.judgement.comparison
    return 0.0 if comparison is None else comparison.overall.speedup


def _round(campaign: Campaign, number: int) -> Round | None:
    return next((r for r in campaign.rounds if r.round == number), None)
