"""Two levels of judgement: quick, on a few workloads, rejects early; full is what keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from roofsmith.analysis.heard import first_look
from roofsmith.analysis.representatives import full_at_once, quick_classes, settles
from roofsmith.domain.campaign import Campaign, Resumed, Round
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.outcome import BuildFailed, Unstable
from roofsmith.domain.proposal import Proposal
from roofsmith.engine.wording import Claim
from roofsmith.ports import Evaluator, Scope, required


def validated(
    evaluator: Evaluator,
    campaign: Campaign,
    proposal: Proposal,
    left_s: Callable[[], float | None],
) -> Judgement:
    """The candidate against the incumbent: quick, where that rejects it; else in full.

    A full judgement starts anew, and holds the pairs of the quick one beside its own.
    """

    def judged(scope: Scope) -> Judgement:
        scope = replace(scope, left_s=left_s())
        found = evaluator.evaluate(proposal.candidate, campaign.incumbent, scope)
        return required(found.judgement)

    earlier = tuple(one.judgement for one in earlier_tries(campaign, proposal))
    everything = Scope(campaign.classes, earlier, proves_ties=proposal.ablates is not None)
    at_once = full_at_once(
        campaign, proposal.hypothesis, repairs=proposal.repair, is_own=proposal.is_own
    )
    if at_once is not None:
        return judged(everything)
    quick = judged(Scope(quick_classes(campaign), quick=True))
    if isinstance(quick.outcome, BuildFailed) or settles(quick, campaign, proposal.hypothesis):
        return quick
    full = judged(everything)
    update = {
        "quick": () if isinstance(quick.outcome, Unstable) else quick.samples,
        "wall_s": quick.wall_s + full.wall_s,
    }
    return full.model_copy(update=update)


def validation_claims(round_: Round, campaign: Campaign) -> Iterator[Claim]:
    """That a quick judgement was due and enough, and that one before a full one wasn't enough."""
    judgement = round_.judgement
    if round_.pooled:
        tries = earlier_tries(campaign, round_)
        same = tuple(one.round for one in tries if one.judgement.judge == judgement.judge)
        yield "earlier rounds whose pairs count", round_.pooled, same
    is_quick = judgement.validation == "quick"
    if not is_quick and not judgement.quick:
        return
    own, repairs = round_.is_own, round_.repairs is not None
    at_once = full_at_once(campaign, round_.hypothesis, repairs=repairs, is_own=own)
    yield "reason to judge in full at once", None, at_once
    samples = judgement.samples if is_quick else judgement.quick
    chosen = {label for c in quick_classes(campaign) for label in c.workloads}
    if strange := {sample.workload for sample in samples} - chosen:
        yield "workloads of the quick judgement", sorted(strange), sorted(chosen)
        return
    seen = judgement if is_quick else _as_it_was(judgement, campaign)
    enough = settles(seen, campaign, round_.hypothesis)
    yield "quick judgement is enough", is_quick, enough
    if is_quick:
        yield "second measurement of a quick judgement", len(judgement.confirmation), 0


def _as_it_was(judgement: Judgement, campaign: Campaign) -> Judgement:
    quick = judgement.model_copy(update={"samples": judgement.quick, "earlier": ()})
    found = first_look(quick, campaign.grounds("quick"))
    verdict = found.overall.verdict if found is not None else "unverified"
    return Judgement(verdict=verdict, comparison=found, wall_s=0.0)


# Which tries count is nobody's choice, or the lucky would be chosen: all of the same built code
# against the same incumbent, on the same machine, by the same judge, but for those that a disturbed
# device ended, which kernels don't decide.
def earlier_tries(campaign: Campaign, made: Proposal | Round) -> tuple[Round, ...]:
    """Rounds of a change that is tried again, oldest first; masks and restarts hide none.

    A judge counts those alone that it judged itself: `judgement.judge`.
    """
    if made.is_own:
        return ()
    since = _last_move(campaign)
    return tuple(
        one
        for one in campaign.rounds
        if one.round > since
        and not one.is_own
        and (one.candidate.id, one.incumbent_id) == (made.candidate.id, campaign.incumbent.id)
        and one.judgement.validation == "full"
        and not isinstance(one.judgement.outcome, Unstable)
        and one.judgement.samples
    )


def _last_move(campaign: Campaign) -> int:
    """The round after which the campaign went on elsewhere, or with other software; 0: none."""
    started, since = campaign.started, 0
    place = started.environment.fingerprint, started.gpu
    for aside in campaign.asides:
        if isinstance(event := aside.event, Resumed):
            here = event.environment.fingerprint, event.gpu
            since, place = (since if here == place else aside.after_round), here
    return since
