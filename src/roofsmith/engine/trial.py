"""One round: build, judge, inspect, profile, decide. The loop records what came of it."""

from __future__ import annotations

from roofsmith.analysis.decide import decide
from roofsmith.analysis.scan import with_remarks
from roofsmith.analysis.sizes import smallest
from roofsmith.analysis.skew import uneven_workloads
from roofsmith.analysis.transfer import audited
from roofsmith.domain.campaign import Campaign, Decision, Kept, RolledBack, Round
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.inspection import Inspection
from roofsmith.domain.proposal import Proposal
from roofsmith.engine import records
from roofsmith.engine.meter import timestamp
from roofsmith.engine.parts import Parts
from roofsmith.engine.profiling import Seen, profiles_of, see
from roofsmith.engine.repairing import repaired_round
from roofsmith.engine.splitting import decided, seen_dimensions, split_proposal, with_refusal
from roofsmith.engine.survey import Survey
from roofsmith.engine.transferring import check_transfer
from roofsmith.engine.validating import validated
from roofsmith.ports import Scope, Unmergeable


class Trial:
    """One proposal before the judge, against what the campaign holds now."""

    def __init__(
        self,
        parts: Parts,
        known: Survey,
        campaign: Campaign,
        proposal: Proposal,
    ) -> None:
        self._parts = parts
        self._known = known
        self._campaign = campaign
        self._proposal = proposal

    def round(self) -> Round:
        """What the proposal becomes.

        Raises:
            UsageError: it says that it is a repair, and isn't.
        """
        campaign, candidate, parts = self._campaign, self._proposal.candidate, self._parts
        repairs = repaired_round(campaign, self._proposal)
        judgement = validated(parts.evaluator, campaign, self._proposal)
        judgement = with_remarks(judgement, candidate, campaign.incumbent)
        inspection = self._inspect(judgement)
        judgement = records.inspected(judgement, inspection)
        seen = self._see(judgement)
        decision = self._settle(judgement, seen)
        transfer = check_transfer(
            parts.evaluator, campaign, candidate, self._proposal.hypothesis, decision
        )
        decision = audited(decision, transfer, judgement, parts.target.keep)
        round_ = records.round_record(
            campaign, self._proposal, judgement, decision, seen,
            lap=parts.meter.lap(), at=timestamp(parts.clock),
            inspection=inspection, transfer=transfer, repairs=repairs,
        )  # fmt: skip
        if isinstance(decision, RolledBack) and decision.diverged:
            found = dispatch_of(parts, self._known, campaign, round_)
            round_ = with_refusal(round_, found)
        return round_

    def _inspect(self, judgement: Judgement) -> Inspection | None:
        """Sanitize a candidate that would be kept, on the smallest workload: they are slow."""
        if not isinstance(self._decide(judgement), Kept):
            return None
        workload = smallest(self._parts.target, self._campaign.started.bounds)
        scope = Scope(inspect=workload)
        return self._parts.evaluator.evaluate(self._proposal.candidate, None, scope).inspection

    def _see(self, judgement: Judgement) -> Seen:
        """Profile a candidate that passed; once more where that alone is against it, or where the
        incumbent was last looked at on another workload."""
        aim, candidate = self._proposal.hypothesis.target_class, self._proposal.candidate

        def would_be_kept(seen: Seen | None) -> bool:
            return isinstance(self._decide(judgement, seen), Kept)

        return see(self._parts.evaluator, self._campaign, candidate, judgement, aim, would_be_kept)

    def _decide(self, judgement: Judgement, seen: Seen | None = None) -> Decision:
        grounds = self._campaign.grounds(judgement.validation)
        first = records.recompared(judgement.samples, grounds)
        profiles = profiles_of(self._campaign, seen) if seen is not None else ()
        hypothesis, policy = self._proposal.hypothesis, self._parts.target.keep
        uneven = uneven_workloads(grounds.unevenness)
        return decide(judgement, first, hypothesis, policy, profiles, uneven)

    def _settle(self, judgement: Judgement, seen: Seen) -> Decision:
        """The decision, with what divergence and dispatch add to it."""
        known = self._known
        workloads = self._parts.target.workloads
        dims = tuple(seen_dimensions(workloads, known.signature, known.descriptions))
        decision = self._decide(judgement, seen)
        return decided(decision, judgement, self._campaign, self._proposal.splits, dims)


def dispatch_of(
    parts: Parts, known: Survey, campaign: Campaign, diverged: Round
) -> Proposal | Unmergeable:
    """The incumbent and a diverged round's kernel in one, or why that can't be."""
    return split_proposal(campaign, diverged, parts.merger, known.signature, known.descriptions)
