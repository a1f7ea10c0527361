"""Whether a round's gain is there outside of a benchmark: audited, and traced before it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofsmith.analysis.sizes import smallest
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.target import Target
from roofsmith.domain.transfer import Trace, TransferCheck
from roofsmith.engine.case import Case, WouldBeKept
from roofsmith.engine.wording import Claim
from roofsmith.overfitting.hints import Audit, audit
from roofsmith.overfitting.rule import RULES, check_of
from roofsmith.ports import Evaluator, Scope


def check(case: Case, evaluator: Evaluator, would_be_kept: WouldBeKept) -> Case:
    """Keep check: read the candidate's source; run steps with it if it would be kept and may be."""
    found = _checked(case, evaluator, would_be_kept)
    return replace(case, findings=(*case.findings, found))


def _checked(case: Case, evaluator: Evaluator, would_be_kept: WouldBeKept) -> TransferCheck:
    campaign, hypothesis = case.campaign, case.hypothesis
    found = audit_of(campaign, case.candidate)
    if not would_be_kept(case):
        return check_of(hypothesis, found, untraced="it isn't kept anyway")
    if hypothesis.bucket in ("W2", "W3"):
        return check_of(hypothesis, found, untraced="its hypothesis alone speaks against it")
    workload = smallest(campaign.started.target, campaign.started.bounds)
    scope = Scope(trace=workload, kept_values=found.kept_values)
    seen = evaluator.evaluate(case.candidate, None, scope).trace
    if isinstance(seen, Trace):
        return check_of(hypothesis, found, seen)
    needed = _needs_trace(campaign.started.target, found)
    return check_of(hypothesis, found, untraced=seen or "", needs_trace=needed)


def _needs_trace(target: Target, found: Audit) -> bool:
    """A repository's benchmark may repeat its tensors, where the judge's calls have new ones."""
    hints = [v.bucket for v in found.kept_values if not v.inherited]
    if target.command is None:
        return "W1" in hints or "W2" in hints
    is_even = any(not a.inherited for a in found.assumptions)
    return bool(hints) or is_even or target.command.transfer is not None


def audit_of(campaign: Campaign, candidate: Candidate) -> Audit:
    """What a candidate's source hints at beside its incumbent's."""
    target = campaign.started.target
    return audit(candidate, campaign.incumbent, target.reference)


def transfer_claims(round_: Round, campaign: Campaign) -> Iterator[Claim]:
    """What a recorded check says of a source, and what reading the source again says.

    Older ledgers have none; what another version of the audit found can't be found again.
    """
    check = round_.transfer
    if check is None:
        if any(round_.transfer is not None for round_ in campaign.rounds):
            yield "transfer check", None, "one, as in the rounds before"
        return
    if check.rules != RULES:
        return
    follows = check_of(round_.hypothesis, audit_of(campaign, round_.candidate), check.trace)
    yield "over-fitting bucket", check.bucket, follows.bucket
    yield "what it keeps between calls", check.kept_values, follows.kept_values
    yield "what it takes for granted of groups", check.assumptions, follows.assumptions
    yield "what isn't audited", check.unread, follows.unread
