"""One round: evaluate, look at what would be kept, decide. The loop records what came of it."""

from __future__ import annotations

from dataclasses import replace

from roofsmith.analysis.scan import with_remarks
from roofsmith.domain.campaign import Campaign, RolledBack, Round
from roofsmith.domain.finding import Unsourced
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.workload import Workload
from roofsmith.engine import records
from roofsmith.engine.case import Case
from roofsmith.engine.deciding import KEEP_CHECKS, decide, would_be_kept
from roofsmith.engine.meter import timestamp
from roofsmith.engine.parts import Parts
from roofsmith.engine.profiling import listed
from roofsmith.engine.repairing import repaired_round
from roofsmith.engine.splitting import seen_dimensions, split_proposal, with_refusal
from roofsmith.engine.survey import Survey
from roofsmith.engine.validating import validated
from roofsmith.ports import Unmergeable


class Trial:
    """One proposal before the judge, against what the campaign holds now."""

    def __init__(
        self,
        parts: Parts,
        known: Survey,
        campaign: Campaign,
        proposal: Proposal,
        held_out: tuple[Workload, ...] = (),
    ) -> None:
        self._parts = parts
        self._known = known
        self._campaign = campaign
        self._proposal = proposal
        self._held_out = held_out

    def round(self) -> Round:
        """What the proposal becomes.

        Raises:
            UsageError: it says that it is a repair, and isn't.
        """
        campaign, proposal, parts = self._campaign, self._proposal, self._parts
        repairs = repaired_round(campaign, proposal)
        judgement = validated(parts.evaluator, campaign, proposal)
        judgement = with_remarks(judgement, proposal.candidate, campaign.incumbent)
        case = replace(
            Case.of(campaign, proposal, judgement, self._dims),
            findings=self._unsourced(),
            held_out=self._held_out,
        )
        for look in KEEP_CHECKS:
            case = look(case, parts.evaluator, would_be_kept)
        decision = decide(case.evidence)
        profile = case.seen.profile
        seen = None if profile is None else listed(parts.evaluator, case.candidate, profile)
        round_ = records.round_record(
            campaign, proposal, case.judgement, decision, case.seen,
            lap=parts.meter.lap(), at=timestamp(parts.clock),
            disassembly=seen, findings=case.findings, repairs=repairs,
        )  # fmt: skip
        if isinstance(decision, RolledBack) and decision.diverged:
            found = dispatch_of(parts, self._known, campaign, round_)
            round_ = with_refusal(round_, found)
        return round_

    def _unsourced(self) -> tuple[Unsourced, ...]:
        """The numbers of the hypothesis that need a source; they are marked, and speak for none."""
        checked = self._parts.check_citations(self._proposal.hypothesis, self._campaign)
        return (Unsourced(numbers=checked.unsourced),) if checked.unsourced else ()

    @property
    def _dims(self) -> tuple[str, ...]:
        """Dimensions that kernels can see."""
        known, workloads = self._known, self._parts.target.workloads
        return tuple(seen_dimensions(workloads, known.signature, known.descriptions))


def dispatch_of(
    parts: Parts, known: Survey, campaign: Campaign, diverged: Round
) -> Proposal | Unmergeable:
    """The incumbent and a diverged round's kernel in one, or why that can't be."""
    return split_proposal(campaign, diverged, parts.merger, known.signature, known.descriptions)
