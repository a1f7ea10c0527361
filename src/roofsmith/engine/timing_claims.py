"""What a judgement says its times show, and what its raw samples show. Pure.

Times are heard in the judge's order: whether its own clock saw a confirmed gain at all, then the
physical floor; only of what passes both does a smaller gain by that clock take the claim's place.
"""

from __future__ import annotations

from collections.abc import Iterator

from roofsmith.analysis.clock import Agreement
from roofsmith.analysis.heard import heard
from roofsmith.analysis.roofline import below_floor
from roofsmith.domain.campaign import Started
from roofsmith.domain.comparison import Comparison, Judgement
from roofsmith.domain.inspection import by_sanitizers
from roofsmith.domain.outcome import Cheated, Outcome, Passed
from roofsmith.engine.wording import Claim

BY_TIMES = ("clock_forged", "below_floor")
"""Reasons that follow from times alone."""


def recounted(judgement: Judgement, started: Started) -> Comparison | None:
    """The comparison that a judgement's samples give.

    The clock's own where that saw a smaller gain of a candidate that passed.
    """
    found = heard(judgement, started)
    is_heeded = found.seen == "exaggerated" and _passed_the_judge(judgement.outcome)
    return found.clocked.sure if found.clocked is not None and is_heeded else found.claimed


Ratios = tuple[str, ...]
"""Medians of a comparison: the whole's, then its classes', its workloads' and their times."""


def ratio_claim(
    judgement: Judgement, started: Started
) -> tuple[str, Ratios | None, tuple[Ratios | None, ...]]:
    """A comparison's medians, and those of which they have to be one by any version of the rules.

    That is the claim's or the clock's: which of them counts, and what follows from them, is decided
    by rules.
    """
    found = heard(judgement, started)
    by_clock = [_ratios(found.clocked.sure)] if found.clocked is not None else []
    follow = [_ratios(found.claimed), *by_clock]
    return "comparison's medians", _ratios(judgement.comparison), tuple(follow)


def _ratios(found: Comparison | None) -> Ratios | None:
    if found is None:
        return None
    estimates = (found.overall, *(c.estimate for c in found.classes))
    medians = [estimate.speedup for estimate in estimates]
    for one in found.workloads:
        medians += (one.estimate.speedup, one.candidate_time_s, one.incumbent_time_s)
    return tuple(f"{value:.9g}" for value in medians)


def timing_claims(judgement: Judgement, started: Started) -> Iterator[Claim]:
    """The outcome and the verdict, as far as times decide them.

    A candidate that failed otherwise, also while it was timed, was not heard to the end.
    """
    found = heard(judgement, started)
    claimed, seen = found.claimed, found.seen
    outcome, verdict = judgement.outcome, judgement.verdict
    recorded = outcome.reason if isinstance(outcome, Cheated) else "passed"
    if recorded in BY_TIMES or _passed_the_judge(outcome):
        follows = _by_times(claimed, seen, started)
        yield "outcome by the judge's clock and the floor", recorded, follows
    if not isinstance(outcome, Passed):
        return
    if seen is not None:
        yield "a gain by the judge's clock", verdict != "unverified", seen != "unresolved"
    if verdict != "unverified":
        compared = judgement.comparison
        yield "verdict", verdict, compared.overall.verdict if compared else "unverified"


def _by_times(claimed: Comparison | None, seen: Agreement | None, started: Started) -> str:
    if seen == "forged":
        return "clock_forged"
    bounds = {bound.workload: bound for bound in started.bounds}
    found = claimed.workloads if claimed else ()
    for one in found:
        bound = bounds.get(one.workload)
        if bound and below_floor(bound, one.candidate_time_s):
            return "below_floor"
    return "passed"


def _passed_the_judge(outcome: Outcome) -> bool:
    """Sanitizers come after the judge: what they reject had passed."""
    return isinstance(outcome, Passed) or by_sanitizers(outcome)
