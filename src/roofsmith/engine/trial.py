"""One round: evaluate, look at what would be kept, decide. The loop records what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from roofsmith.analysis.bases import base_of
from roofsmith.analysis.scan.sources import with_remarks
from roofsmith.asking.sights import seen_dimensions
from roofsmith.domain.campaign import Campaign, RolledBack, Round
from roofsmith.domain.finding import Unsourced
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.workload import Workload
from roofsmith.engine.case import Case
from roofsmith.engine.deciding import KEEP_CHECKS, decide, would_be_kept
from roofsmith.engine.meter import timestamp
from roofsmith.engine.parts import Parts
from roofsmith.engine.records import standing_after
from roofsmith.engine.repairing import repaired_round
from roofsmith.engine.splitting import split_proposal, with_refusal
from roofsmith.engine.survey import Survey
from roofsmith.engine.validating import validated
from roofsmith.ports import Unmergeable


def tried(
    parts: Parts,
    known: Survey,
    campaign: Campaign,
    proposal: Proposal,
    held_out: tuple[Workload, ...],
    left_s: Callable[[], float | None],
) -> Round:
    """What a proposal becomes, against what the campaign holds now.

    Raises:
        UsageError: it says that it is a repair, and isn't.
    """
    repairs = repaired_round(campaign, proposal)
    judgement = validated(parts.evaluator, campaign, proposal, left_s)
    judgement = with_remarks(judgement, proposal.candidate, campaign.incumbent)
    dims = tuple(seen_dimensions(parts.target.workloads, known.signature, known.descriptions))
    case = replace(
        Case.of(campaign, proposal, judgement, dims),
        findings=(Unsourced(numbers=proposal.unsourced),) if proposal.unsourced else (),
        held_out=held_out,
    )
    for look in KEEP_CHECKS:
        case = look(case, parts.evaluator, would_be_kept)
    round_ = _recorded(parts, case, proposal, repairs)
    if isinstance(round_.decision, RolledBack) and round_.decision.diverged:
        return with_refusal(round_, dispatch_of(parts, known, campaign, round_))
    return round_


def _recorded(parts: Parts, case: Case, proposal: Proposal, repairs: int | None) -> Round:
    campaign, judgement, seen = case.campaign, case.judgement, case.seen
    decision = decide(case.evidence)
    fraction, total = standing_after(campaign, judgement, decision)
    lap = parts.meter.lap()
    return Round(
        round=len(campaign.rounds) + 2,
        hypothesis=proposal.hypothesis,
        proposer=proposal.proposer,
        candidate=proposal.candidate,
        incumbent_id=campaign.incumbent.id,
        repairs=repairs,
        splits=proposal.splits,
        ablates=proposal.ablates,
        base=base_of(campaign, proposal, repairs),
        formatting=proposal.formatting,
        screened=proposal.screened,
        judgement=judgement,
        pooled=tuple(r.round for r in campaign.rounds if r.judgement in judgement.earlier),
        decision=decision,
        profile=seen.profile,
        bottleneck=seen.bottleneck,
        incumbent_profile=seen.incumbent_profile,
        aimed_profiles=seen.aimed,
        findings=case.findings,
        roofline_fraction=fraction,
        total_speedup=total,
        tokens=proposal.tokens,
        cost_usd=proposal.cost_usd,
        wall_s=lap.wall_s,
        kernel_s=lap.kernel_s,
        at=timestamp(parts.clock),
    )


def dispatch_of(
    parts: Parts, known: Survey, campaign: Campaign, diverged: Round
) -> Proposal | Unmergeable:
    """The incumbent and a diverged round's kernel in one, or why that can't be."""
    return split_proposal(campaign, diverged, parts.merger, known.signature, known.descriptions)
