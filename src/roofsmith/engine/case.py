"""What is known of a candidate before it is decided on, and what keep checks look at. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofsmith.analysis.evidence import Evidence
from roofsmith.analysis.heard import first_look
from roofsmith.analysis.skew import uneven_workloads
from roofsmith.analysis.weights import by_weight
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.finding import Finding
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.domain.workload import Workload
from roofsmith.engine.seen import Seen, profiles_of
from roofsmith.engine.splitting import made_for
from roofsmith.ports import Evaluator


@dataclass(frozen=True, slots=True)
class Case:
    """One candidate against what the campaign holds now."""

    campaign: Campaign
    """Before the round."""
    hypothesis: Hypothesis
    candidate: Candidate
    splits: int | None
    """The diverged round that the candidate is the dispatch of, if it is one."""
    ablates: int | None
    """The kept round whose change the candidate leaves out, if it does."""
    dims: tuple[str, ...]
    """Dimensions that kernels can see."""
    judgement: Judgement
    seen: Seen = Seen()  # noqa: RUF009 - frozen
    findings: tuple[Finding, ...] = ()
    held_out: tuple[Workload, ...] = ()
    """Workloads that no proposer is shown."""

    @staticmethod
    def of(
        campaign: Campaign, made: Proposal | Round, judgement: Judgement, dims: tuple[str, ...]
    ) -> Case:
        """A proposal or a round, when it was judged and nothing else was looked at yet."""
        return Case(
            campaign, made.hypothesis, made.candidate, made.splits, made.ablates, dims, judgement
        )

    @property
    def evidence(self) -> Evidence:
        grounds = self.campaign.grounds(self.judgement.validation)
        command = grounds.target.command
        winners, dispatch = made_for(self.campaign, self.splits, self.dims)
        found, target = self.judgement, grounds.target
        measured = found.confirmation or found.samples
        counted = by_weight(found.comparison, target, measured, found.clock)
        return Evidence(
            judgement=found
            if not target.weights
            else found.model_copy(update={"comparison": counted}),
            first=by_weight(first_look(found, grounds), target, found.samples),
            hypothesis=self.hypothesis,
            policy=grounds.target.keep,
            profiles=profiles_of(self.campaign, self.seen),
            uneven=uneven_workloads(grounds.unevenness),
            winners=winners,
            dispatch=dispatch,
            ablates=self.ablates is not None,
            is_weighed=bool(target.weights),
            trusts_clock=command is not None and command.trusts_clock,
            findings=self.findings,
        )


WouldBeKept = Callable[[Case], bool]
"""Whether nothing speaks against a candidate so far."""

KeepCheck = Callable[[Case, Evaluator, WouldBeKept], Case]
"""Looks at a candidate through the evaluator; the case with what it found."""
