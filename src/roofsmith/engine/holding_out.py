"""Keep check: right on workloads that no proposer was shown. At the end, how fast it is there."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace

from roofsmith.analysis.held_out import clue
from roofsmith.domain.campaign import Campaign, Kept, Round, Started
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.held_out import Generalization, HeldOut, HeldOutCheck
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.outcome import Passed, Unstable
from roofsmith.domain.workload import Workload
from roofsmith.engine.case import Case, WouldBeKept
from roofsmith.engine.wording import Claim
from roofsmith.errors import BadReferenceError, BaselineError, TargetError
from roofsmith.ports import Evaluator, Scope, required


def held_out(drawn: Sequence[Workload], baseline: Candidate, evaluator: Evaluator) -> HeldOut:
    """Those of the drawn workloads on which reference and baseline work: an honest kernel may rely
    on whatever the baseline relies on."""
    fit = tuple(drawn)
    if _failure(baseline, fit, evaluator) is not None:
        fit = tuple(one for one in drawn if _failure(baseline, (one,), evaluator) is None)
    return HeldOut(salt=secrets.token_hex(16), workloads=fit)


def check(case: Case, evaluator: Evaluator, would_be_kept: WouldBeKept) -> Case:
    """The case, with how the candidate does on them: all at once, and one by one if it fails."""
    if case.campaign.held_out is None or not would_be_kept(case):
        return case
    failure = _failure(case.candidate, case.held_out, evaluator)
    if failure is not None:
        failure = next(_told(case, evaluator), failure)
    found = HeldOutCheck(count=len(case.held_out), failure=failure)
    return replace(case, findings=(*case.findings, found))


def generalization(
    campaign: Campaign, held: HeldOut | None, evaluator: Evaluator
) -> Generalization | None:
    """The final kernel beside the baseline on them; None where nothing was kept or held out."""
    if held is None or not held.workloads or not campaign.kept:
        return None
    baseline = campaign.started.target.baseline
    scope = Scope(held_out=held.workloads, built_before=True)
    try:
        found = required(evaluator.evaluate(campaign.incumbent, baseline, scope).judgement)
    except BaselineError as error:  # it passed when they were drawn
        outcome = Unstable(reason="nondeterministic", detail=error.message)
        found = Judgement(outcome=outcome, verdict="rejected", wall_s=0.0)
    return Generalization(held_out=held, judgement=found)


def held_out_claims(round_: Round, campaign: Campaign) -> Iterator[Claim]:
    """That nothing was kept without a look at what is held out."""
    if isinstance(round_.decision, Kept) and campaign.held_out is not None:
        looked = any(isinstance(one, HeldOutCheck) for one in round_.findings)
        yield "a look at held-out workloads", looked, True


def grounds_of(held: HeldOut, started: Started) -> Started:
    """What a judgement on them is computed on: nobody computed their rooflines."""
    target = started.target.model_copy(update={"workloads": held.workloads})
    return started.model_copy(update={"target": target, "classes": held.classes, "bounds": ()})


def _told(case: Case, evaluator: Evaluator) -> Iterator[str]:
    """Its failures one by one, with what tells the workload from those that are shown."""
    shown = case.campaign.started.target.workloads
    for workload in case.held_out:
        if failure := _failure(case.candidate, (workload,), evaluator):
            yield f"{failure} where {clue(workload, shown)}"


def _failure(
    candidate: Candidate, workloads: tuple[Workload, ...], evaluator: Evaluator
) -> str | None:
    """In words that name no workload: what a kernel prints when it dies might do so."""
    if not workloads:
        return None
    scope = Scope(alone="check", held_out=workloads, built_before=True)
    try:
        outcome = required(evaluator.evaluate(candidate, None, scope).measured).outcome
    except (BadReferenceError, TargetError):
        return "the reference fails"
    if isinstance(outcome, Passed):
        return None
    return f"{outcome.kind.replace('_', ' ')} ({outcome.reason})"
