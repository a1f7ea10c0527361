"""Config classes that diverge get a kernel each: the dispatch that the engine proposes itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofsmith.analysis.dispatch import (
    Divergence,
    dispatch_of,
    divergence,
    promised_speedup,
)
from roofsmith.analysis.evidence import both_measurements
from roofsmith.analysis.heard import first_look
from roofsmith.asking.sights import seen_dimensions
from roofsmith.domain.campaign import Campaign, RolledBack, Round
from roofsmith.domain.comparison import Comparison
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.dispatch import Dispatch
from roofsmith.domain.kernel import Candidate, Signature
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.ports import Merger, Unmergeable

TACTIC = "split"


def due_split(campaign: Campaign) -> Round | None:
    """The diverged round whose dispatch is to be judged next; None if there is none.

    What is masked from planning isn't planned on.
    """
    last = campaign.rounds[-1] if campaign.rounds else None
    if last is None or last.splits is not None or last.unsplit is not None:
        return None
    if last.round in campaign.masked:
        return None
    return last if isinstance(last.decision, RolledBack) and last.decision.diverged else None


def split_proposal(
    campaign: Campaign, diverged: Round, merger: Merger | None, signature: Signature,
    descriptions: Mapping[str, WorkloadDescription],
) -> Proposal | Unmergeable:  # fmt: skip
    """The incumbent for who lost by a round, its kernel for who gained; or why that can't be."""
    if diverged.splits is not None:
        return Unmergeable("it is a dispatch itself")
    found = _divergence(diverged, campaign)
    comparison = diverged.judgement.comparison
    if merger is None or found is None or comparison is None:
        return Unmergeable("there is no way to make one kernel of two here")
    sights = seen_dimensions(campaign.started.target.workloads, signature, descriptions)
    dispatch = _dispatch(campaign, diverged, found, tuple(sights))
    if dispatch is None:
        return Unmergeable(_unexplained(found, tuple(sights)))
    merged = merger(campaign.incumbent, diverged.candidate, dispatch, sights, signature)
    if isinstance(merged, Unmergeable):
        return merged
    return _proposal(diverged, dispatch, found, comparison, merged)


def with_refusal(round_: Round, found: Proposal | Unmergeable) -> Round:
    """A diverged round, and why no dispatch follows, if none does."""
    reason = found.reason if isinstance(found, Unmergeable) else None
    return round_.model_copy(update={"unsplit": reason})


def made_for(
    campaign: Campaign, splits: int | None, dims: Sequence[str]
) -> tuple[tuple[str, ...], Dispatch | None]:
    """Classes that a dispatch of a diverged round has to gain on, and what runs where.

    Neither of a candidate that is no dispatch.

    Args:
        campaign: before the round.
        splits: the diverged round that the candidate is the dispatch of, if it is one.
        dims: dimensions that kernels can see.
    """
    diverged = next((r for r in campaign.rounds if r.round == splits), None)
    found = _divergence(diverged, campaign) if diverged is not None else None
    if diverged is None or found is None:
        return (), None
    return found.winners, _dispatch(campaign, diverged, found, dims)


def _divergence(diverged: Round, campaign: Campaign) -> Divergence | None:
    judgement = diverged.judgement
    first = first_look(judgement, campaign.grounds(judgement.validation))
    return divergence(*both_measurements(judgement, first))


def _dispatch(
    campaign: Campaign, diverged: Round, found: Divergence, dims: Sequence[str]
) -> Dispatch | None:
    workloads = campaign.started.target.workloads
    return dispatch_of(diverged.round, found, workloads, campaign.classes, dims)


def _unexplained(found: Divergence, dims: Sequence[str]) -> str:
    seen = f"of {', '.join(dims)}" if dims else "that a kernel could see"
    gain, rest = ", ".join(found.winners), ", ".join(found.losers)
    return f"no rule over dimensions {seen} tells {gain} from {rest}"


def _proposal(
    diverged: Round, dispatch: Dispatch, found: Divergence, comparison: Comparison,
    merged: Candidate,
) -> Proposal:  # fmt: skip
    by_class = {c.config_class: c.estimate for c in comparison.classes}
    best = max(found.winners, key=lambda name: by_class[name].speedup)
    return Proposal(
        hypothesis=Hypothesis(
            statement=f"Two kernels: {dispatch.sentence}",
            rationale=(
                f"round {diverged.round} ({diverged.hypothesis.statement}) gains on"
                f" {', '.join(found.winners)} and loses on {', '.join(found.losers)},"
                " in both measurements"
            ),
            evidence=tuple(
                f"{name}: {by_class[name].speedup:.3f}x in round {diverged.round}"
                for name in (*found.winners, *found.losers)
            ),
            answers=diverged.hypothesis.answers,
            predicted_speedup=promised_speedup(found, comparison),
            target_class=best,
            bucket=diverged.hypothesis.bucket,
            category="dispatch",
            tactic=TACTIC,
        ),
        candidate=merged,
        splits=diverged.round,
    )
