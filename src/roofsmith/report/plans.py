"""`plans/v<N>_plan.md`: what a round set out to do, and on what grounds. Pure.

A plan is what was known before its round: no later mask, round or commit changes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.bases import base_of
from roofsmith.domain.campaign import Campaign, Masked, RolledBack, Round
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.diagnosis import Diagnosed
from roofsmith.domain.memory import OpenDirection
from roofsmith.domain.proposal import Hypothesis, Planned
from roofsmith.domain.target import KeepPolicy
from roofsmith.report.diagnoses import diagnosis_path
from roofsmith.report.logs import holders_of
from roofsmith.report.markdown import fact_lines
from roofsmith.report.prospects import (
    bottleneck_direction,
    expected_impact,
    open_directions,
    risks,
)
from roofsmith.report.summary import Summary, SummaryStep
from roofsmith.report.templating import render_markdown
from roofsmith.report.transfer import BUCKETS
from roofsmith.wording import some_of


@dataclass(frozen=True, slots=True)
class Looked:
    """One place that was looked at before the change was proposed."""

    source: str
    query: str
    finding: str
    new: bool
    """Whether no earlier plan of the campaign had it."""


def plan(campaign: Campaign, summary: Summary, step: SummaryStep) -> str:
    """From which kernel, by which evidence, against which limits, and what undoes it."""
    assert step.hypothesis is not None, "the baseline has no plan"
    ceilings = [fact for bound in campaign.started.bounds for fact in (bound.bandwidth, bound.peak)]
    before = [s for s in summary.steps if s.number < step.number]
    return render_markdown(
        "plan.md",
        step=step,
        holder=holders_of(summary)[step.number],
        bucket_meaning=BUCKETS[step.hypothesis.bucket],
        facts=fact_lines(tuple(dict.fromkeys(ceilings))),
        looked=list(_looked(campaign, before, step)),
        impact=expected_impact(step),
        risks=risks(step),
        success=_success(step, campaign.started.target.keep),
        others=_others(before[-1], step.hypothesis),
    )


def planned_round(campaign: Campaign, planned: Planned) -> Round:
    """What is planned, as a round that nothing is known of yet."""
    proposal = planned.proposal
    repairs = campaign.rounds[-1].idea if proposal.repair and campaign.rounds else None
    last = campaign.rounds[-1] if campaign.rounds else None
    return Round(
        round=planned.round,
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
        judgement=Judgement(verdict="unverified", wall_s=0.0),
        decision=RolledBack(rule="planned"),
        roofline_fraction=None if last is None else last.roofline_fraction,
        total_speedup=campaign.total_speedup,
        wall_s=0.0,
        at=planned.at,
    )


def _others(previous: SummaryStep, hypothesis: Hypothesis) -> list[OpenDirection]:
    """What the round before left open, and this one doesn't take up."""
    taken = bottleneck_direction(hypothesis.answers)
    return [found for found in open_directions(previous) if found.direction != taken]


def _looked(campaign: Campaign, before: list[SummaryStep], step: SummaryStep) -> Iterator[Looked]:
    hypothesis, profile = step.hypothesis, step.profile_before
    assert hypothesis is not None, "the baseline has no plan"
    masked = _masked_by(campaign, step.number)
    seen = [s for s in before if s.number > 1 and s.number not in masked]
    alike = [s for s in seen if s.hypothesis and s.hypothesis.tactic == hypothesis.tactic]
    yield Looked("ledger", f"rounds with {hypothesis.tactic}", _history(alike), not alike)
    kind = [s for s in seen if s.hypothesis and s.hypothesis.category == hypothesis.category]
    yield Looked("ledger", f"rounds of the kind {hypothesis.category}", _history(kind), not kind)
    if masked:
        finding = f"{fmt.plural(len(masked), 'round')} masked, not looked at"
        yield Looked("memory", "masked rounds", finding, new=False)
    if profile is not None:
        cited = len(hypothesis.evidence)
        finding = f"{fmt.plural(cited, 'line')} of evidence, above" if cited else "nothing cited"
        yield Looked(profile.tool, f"the incumbent on {profile.workload}", finding, not alike)
    for event in _diagnoses_before(campaign, step.number):
        yield Looked("diagnosis", f"level {event.level}", diagnosis_path(event), new=True)
    if campaign.started.tips:
        tips = campaign.started.tips
        yield Looked("tips", "same device, operator, language", f"{len(tips)} read", len(seen) == 0)
    if known := campaign.started.directions:
        read = f"{fmt.plural(len(known), 'direction')} read"
        fitting = dict.fromkeys(one.page for one in known if hypothesis.answers in one.answers)
        finding = f"{read}; {hypothesis.answers}: {some_of(tuple(fitting))}" if fitting else read
        yield Looked("library", "same operator, device, language", finding, not seen)
    if (searched := campaign.started.references) is not None:
        first = f": {searched.hits[0].where}" if searched.hits else ""
        finding = f"{fmt.plural(len(searched.hits), 'hit')}{first}"
        yield Looked("references", searched.query, finding, new=not seen)
    if learned := [one for one in campaign.started.learned if one.tactic == hypothesis.tactic]:
        rounds, kept = sum(one.rounds for one in learned), sum(one.kept for one in learned)
        finding = f"{kept} of {fmt.plural(rounds, 'round')} kept"
        yield Looked("experience", f"{hypothesis.tactic}, like situations", finding, not alike)
    if step.screened:
        count = fmt.plural(len(step.screened), "point")
        yield Looked("screening", count, "the best that held is proposed", new=True)
    if hypothesis.source:
        yield Looked("literature", hypothesis.tactic, hypothesis.source, not alike)


def _history(steps: list[SummaryStep]) -> str:
    """What rounds came to: `round 3 kept, round 5 slower`; nobody tried, if there are none."""
    return ", ".join(f"round {s.number} {s.status}" for s in steps) or "not tried yet"


def _masked_by(campaign: Campaign, number: int) -> frozenset[int]:
    """Rounds that planning didn't see when round `number` was planned."""
    masked: frozenset[int] = frozenset()
    for aside in campaign.asides:
        if isinstance(aside.event, Masked) and aside.after_round < number:
            masked = aside.event.applied(masked)
    return masked


def _diagnoses_before(campaign: Campaign, number: int) -> Iterator[Diagnosed]:
    for aside in campaign.asides:
        if isinstance(aside.event, Diagnosed) and aside.after_round == number - 1:
            yield aside.event


def _success(step: SummaryStep, keep: KeepPolicy) -> str:
    assert step.hypothesis is not None, "the baseline has no plan"
    target = step.hypothesis.target_class
    whom = "overall" if target == "global" else f"on {target}"
    return (
        f"correct on every workload; faster {whom} by more than the noise band of"
        f" {fmt.percent(keep.noise_band)}, in two measurements; no class slower, and no workload by"
        f" {fmt.percent(keep.veto_slowdown)} or more; the total doesn't fall"
    )
