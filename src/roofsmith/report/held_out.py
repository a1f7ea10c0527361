"""How fast the final kernel is where no proposer could look, beside the headline. Pure."""

from __future__ import annotations

from roofsmith.analysis import figures as fmt
from roofsmith.domain.held_out import Generalization
from roofsmith.domain.outcome import Passed
from roofsmith.report.steps import counting_ratio
from roofsmith.report.summary import Unseen


def unseen_of(found: Generalization | None, headline: float) -> Unseen | None:
    """What an end says of shapes that were never shown; None where it says nothing.

    Args:
        found: of the end.
        headline: the speedup on those that were shown.
    """
    if found is None:
        return None
    ratio = counting_ratio(found.judgement)
    return Unseen(
        speedup=ratio,
        workloads=tuple(workload.label for workload in found.held_out.workloads),
        headline=headline,
        failure=None if ratio is not None else _why(found),
    )


def _why(found: Generalization) -> str:
    outcome = found.judgement.outcome
    if isinstance(outcome, Passed):
        return "no undisturbed pair was had"
    return f"{outcome.kind.replace('_', ' ')}: {fmt.first_line(outcome.detail) or outcome.reason}"
