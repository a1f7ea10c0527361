"""Recomputes everything that a ledger claims from its raw samples. Pure.

Facts follow from facts alone: the order of rounds, sums and medians, totals. Conclusions follow
from facts by rules, which get better: those of another version of the rules can't be recomputed,
only compared with what today's would conclude.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import assert_never

from roofsmith.analysis.ablation import kernel_without
from roofsmith.analysis.clock import Agreement
from roofsmith.analysis.compare import counts_twice
from roofsmith.analysis.heard import first_look, heard
from roofsmith.analysis.masks import complaints, why_not_noted
from roofsmith.analysis.representatives import representatives
from roofsmith.analysis.roofline import below_floor
from roofsmith.analysis.rulebook import RULES
from roofsmith.analysis.spending import spent_s
from roofsmith.analysis.strata import found_classes
from roofsmith.domain.campaign import (
    Baseline,
    Campaign,
    Committed,
    Event,
    Kept,
    Masked,
    Noted,
    Profiled,
    Resumed,
    Round,
    Started,
    Stopped,
    after,
)
from roofsmith.domain.comparison import Comparison, Judgement, PairSample
from roofsmith.domain.diagnosis import Diagnosed
from roofsmith.domain.ending import EndCheck
from roofsmith.domain.held_out import Generalization
from roofsmith.domain.inspection import by_sanitizers
from roofsmith.domain.outcome import Cheated, Incorrect, Outcome, Passed
from roofsmith.domain.proposal import Planned
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.yardstick import PyTorchBaselines
from roofsmith.engine.case import Case
from roofsmith.engine.deciding import decide
from roofsmith.engine.diagnosing import diagnosis_findings, was_diagnosed
from roofsmith.engine.formatting import formatting_complaints
from roofsmith.engine.holding_out import grounds_of, held_out_claims
from roofsmith.engine.planning import lost_for_good, plan_claims, plan_complaints
from roofsmith.engine.profiling import profile_findings
from roofsmith.engine.records import standing_after
from roofsmith.engine.repairing import repair_task
from roofsmith.engine.seen import Seen
from roofsmith.engine.splitting import due_split
from roofsmith.engine.stopping import BYTES_ONLY, Stop, end_checks
from roofsmith.engine.transferring import transfer_claims
from roofsmith.engine.validating import validation_claims
from roofsmith.engine.wording import Claim, contrasted

BY_TIMES = ("clock_forged", "below_floor")
"""Reasons that follow from times alone."""


def recounted(judgement: Judgement, started: Started) -> Comparison | None:
    """The comparison that a judgement's samples give.

    The clock's own where that saw a smaller gain of a candidate that passed.
    """
    found = heard(judgement, started)
    is_heeded = found.seen == "exaggerated" and _passed_the_judge(judgement.outcome)
    return found.clocked.sure if found.clocked is not None and is_heeded else found.claimed


Ratios = tuple[str, ...]
"""Medians of a comparison: the whole's, then its classes', its workloads' and their times."""


def ratio_claim(
    judgement: Judgement, started: Started
) -> tuple[str, Ratios | None, tuple[Ratios | None, ...]]:
    """A comparison's medians, and those of which they have to be one by any version of the rules.

    That is the claim's or the clock's: which of them counts, and what follows from them, is decided
    by rules.
    """
    found = heard(judgement, started)
    by_clock = [_ratios(found.clocked.sure)] if found.clocked is not None else []
    follow = [_ratios(found.claimed), *by_clock]
    return "comparison's medians", _ratios(judgement.comparison), tuple(follow)


def _ratios(found: Comparison | None) -> Ratios | None:
    if found is None:
        return None
    estimates = (found.overall, *(c.estimate for c in found.classes))
    medians = [estimate.speedup for estimate in estimates]
    for one in found.workloads:
        medians += (one.estimate.speedup, one.candidate_time_s, one.incumbent_time_s)
    return tuple(f"{value:.9g}" for value in medians)


def timing_claims(judgement: Judgement, started: Started) -> Iterator[Claim]:
    """The outcome and the verdict, as far as times decide them.

    A candidate that failed otherwise, also while it was timed, was not heard to the end.
    """
    found = heard(judgement, started)
    claimed, seen = found.claimed, found.seen
    outcome, verdict = judgement.outcome, judgement.verdict
    recorded = outcome.reason if isinstance(outcome, Cheated) else "passed"
    if recorded in BY_TIMES or _passed_the_judge(outcome):
        follows = _by_times(claimed, seen, started)
        yield "outcome by the judge's clock and the floor", recorded, follows
    if not isinstance(outcome, Passed):
        return
    if seen is not None:
        yield "a gain by the judge's clock", verdict != "unverified", seen != "unresolved"
    if verdict != "unverified":
        compared = judgement.comparison
        yield "verdict", verdict, compared.overall.verdict if compared else "unverified"


def _by_times(claimed: Comparison | None, seen: Agreement | None, started: Started) -> str:
    if seen == "forged":
        return "clock_forged"
    bounds = {bound.workload: bound for bound in started.bounds}
    found = claimed.workloads if claimed else ()
    for one in found:
        bound = bounds.get(one.workload)
        if bound and below_floor(bound, one.candidate_time_s):
            return "below_floor"
    return "passed"


def _passed_the_judge(outcome: Outcome) -> bool:
    """Sanitizers come after the judge: what they reject had passed."""
    return isinstance(outcome, Passed) or by_sanitizers(outcome)


def reported_claims(round_: Round, campaign: Campaign) -> Iterator[Claim]:
    """Whether numbers are marked as the repository's own, and kept by its rules."""
    judgement, spec = round_.judgement, campaign.started.target.command
    if judgement.samples:
        yield "self-reported", judgement.self_reported, spec is not None
    if spec is None:
        return
    rows = campaign.grounds(judgement.validation).target.workloads
    labels = sorted(workload.label for workload in rows)
    for name, samples in (("pairs", judgement.samples), ("second pairs", judgement.confirmation)):
        yield f"{name} of all rows", _odd_sweeps(samples, labels), []
    if isinstance(round_.decision, Kept):
        strange = [s.path for s in round_.candidate.sources if not spec.is_editable(s.path)]
        yield "files beside the editable ones", strange, []
        if spec.profile is not None:
            yield "times by the profiler", bool(judgement.kernels), True


def _odd_sweeps(samples: Sequence[PairSample], labels: Sequence[str]) -> list[int]:
    """Sweeps that aren't of exactly these rows."""
    rows: dict[int, list[str]] = defaultdict(list)
    for sample in samples:
        rows[sample.sweep].append(sample.workload)
    return [sweep for sweep, found in rows.items() if sorted(found) != labels]


@dataclass(frozen=True, slots=True)
class VerifyFinding:
    """Something recorded that doesn't follow from the rest of the record."""

    where: str
    """Such as `round 3`."""
    what: str
    """What is recorded, and what follows instead."""
    rules: int | None = None
    """Version of the rules that concluded it; None: facts contradict it, whatever the rules."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What recomputing a ledger came to."""

    findings: tuple[VerifyFinding, ...]
    """Contradictions; empty if there are none."""
    notes: tuple[VerifyFinding, ...]
    """What was concluded by another version of the rules, and would be otherwise by today's."""
    versions: tuple[int, ...]
    """The other versions that decided something in this ledger, in ascending order."""


def verify(events: Sequence[Event]) -> tuple[VerifyFinding, ...]:
    """Every contradiction between a ledger's claims and its own raw data; empty if there is none.

    The hash chain is the ledger's own affair: reading it has checked it already.
    """
    return verified(events).findings


def verified(events: Sequence[Event]) -> Verified:
    """The same, with what other versions of the rules concluded otherwise."""
    found = tuple(_findings(events))
    others = tuple(finding for finding in found if finding.rules not in (None, RULES))
    recorded = (getattr(event, "rules", None) for event in events)
    versions = {rules for rules in recorded if rules not in (None, RULES)}
    return Verified(
        findings=tuple(finding for finding in found if finding not in others),
        notes=others,
        versions=tuple(sorted(versions)),
    )


def _findings(events: Sequence[Event]) -> Iterator[VerifyFinding]:
    if not events:
        yield VerifyFinding("ledger", "it has no records")
        return
    if not isinstance(events[0], Started):
        yield VerifyFinding("record 1", f"is {events[0].kind}, but a campaign begins with started")
        return
    state, spent = after(None, events[0]), 0.0
    for number, event in enumerate(events[1:], start=2):
        match event:
            case Started():
                yield VerifyFinding(f"record {number}", "the campaign starts a second time")
            case Baseline():
                yield from _baseline_findings(event, state)
                if state.rules == RULES:
                    event = _follows(event, state)
            case Round():
                yield from _round_findings(event, state)
            case Committed():
                yield from _commit_findings(event, number, state)
            case Profiled():
                for what in profile_findings(event, state):
                    yield VerifyFinding(f"record {number}", what)
            case PyTorchBaselines():
                yield from _yardstick_findings(event, number, state)
            case Stopped():
                yield from _stop_findings(event, number, state, spent)
            case Diagnosed():
                for what in diagnosis_findings(event, state):
                    yield VerifyFinding(f"record {number}", what, event.rules or state.rules)
            case Masked():
                for what in complaints(event, state):
                    yield VerifyFinding(f"record {number}", what)
            case Noted():
                if (unfit := why_not_noted(event, state)) is not None:
                    yield VerifyFinding(f"record {number}", unfit)
            case Refusal():
                yield from _refusal_findings(event, number, state)
            case Planned():
                for what in plan_complaints(event, state):
                    yield VerifyFinding(f"record {number}", what)
            case Resumed():
                pass
            case _:
                assert_never(event)
        state, spent = after(state, event), spent + spent_s([event])


def _refusal_findings(event: Refusal, number: int, campaign: Campaign) -> Iterator[VerifyFinding]:
    where = f"record {number}"
    if event.after_round != campaign.last_round:
        what = f"refused after round {event.after_round}; round {campaign.last_round} was the last"
        yield VerifyFinding(where, what)
    if event.reason == "lost" and (
        campaign.planned is None or lost_for_good(campaign, campaign.planned) is None
    ):
        yield VerifyFinding(where, "refused as lost, though nobody died over it often enough")
    if event.reason == "no_change" and event.candidate_id is None:
        yield VerifyFinding(where, "refused for changing nothing, and no candidate is named")


def _baseline_findings(baseline: Baseline, campaign: Campaign) -> Iterator[VerifyFinding]:
    if campaign.baseline is not None:
        yield VerifyFinding("round 1", "there is a second baseline")
    if (follows := _follows(baseline, campaign)) != baseline:
        for name in ("classes", "representative"):
            recorded, right = getattr(baseline, name), getattr(follows, name)
            if recorded != right:
                old, new = contrasted(recorded, right)
                what = f"{name} recorded as {old}; {new} follow from its times"
                yield VerifyFinding("round 1", what, campaign.rules)
    if baseline.candidate != campaign.started.target.baseline:
        yield VerifyFinding("round 1", "the baseline is not the target's kernel")


def _follows(baseline: Baseline, campaign: Campaign) -> Baseline:
    """The baseline with what its times show; older ledgers hold nothing of it."""
    started = campaign.started
    if not baseline.classes:
        return baseline
    classes = found_classes(started.target.workloads, started.classes, baseline.timings)
    chosen = representatives(started.target, classes, baseline.timings, started.unevenness)
    return baseline.model_copy(update={"classes": classes, "representative": chosen})


def _commit_findings(event: Committed, number: int, campaign: Campaign) -> Iterator[VerifyFinding]:
    holder = campaign.holder
    if holder is None or event.round != holder.round:
        held = f"round {holder.round}" if holder else "nothing"
        what = f"a commit of round {event.round} is recorded, when {held} was held"
        yield VerifyFinding(f"record {number}", what)


def _yardstick_findings(
    event: PyTorchBaselines, number: int, campaign: Campaign
) -> Iterator[VerifyFinding]:
    where = f"record {number}"
    if event.incumbent_id != campaign.incumbent.id:
        what = f"yardsticks beside {event.incumbent_id}, when {campaign.incumbent.id} was held"
        yield VerifyFinding(where, what)
    for result in event.results:
        grounds = campaign.grounds()
        yield from _comparison_findings(
            where, result.name, result.judgement, grounds, campaign.rules
        )


def _comparison_findings(
    where: str, name: str, found: Judgement, grounds: Started, rules: int
) -> Iterator[VerifyFinding]:
    what = f"the comparison with {name} doesn't follow from its pairs"
    if found.comparison != recounted(found, grounds):
        yield VerifyFinding(where, what, rules)
    _, recorded, follow = ratio_claim(found, grounds)
    if rules != RULES and recorded not in follow:
        yield VerifyFinding(where, what)


def _generalization_findings(
    found: Generalization, where: str, campaign: Campaign
) -> Iterator[VerifyFinding]:
    held = found.held_out
    if held.digest != campaign.held_out:
        yield VerifyFinding(
            where, "the held-out workloads that it shows aren't those that were sealed"
        )
    name, grounds = "the baseline on held-out workloads", grounds_of(held, campaign.started)
    yield from _comparison_findings(where, name, found.judgement, grounds, campaign.rules)


def _round_findings(round_: Round, campaign: Campaign) -> Iterator[VerifyFinding]:
    where, round_ = f"round {round_.round}", campaign.with_earlier(round_)
    kinds = ((_facts(round_, campaign), None), (_conclusions(round_, campaign), campaign.rules))
    for claims, rules in kinds:
        for name, recorded, follows in claims:
            if recorded != follows:
                old, new = contrasted(recorded, follows)
                yield VerifyFinding(where, f"{name} is recorded as {old}; {new} follows", rules)
    for what in formatting_complaints(round_, campaign.started.target):
        yield VerifyFinding(where, what)
    if not was_diagnosed(round_, campaign):
        what = "an idea after rollbacks, without what its level looks at again"
        yield VerifyFinding(where, what, campaign.rules)
    if campaign.baseline is None:
        yield VerifyFinding(where, "a round before the baseline")


def _facts(round_: Round, campaign: Campaign) -> Iterator[Claim]:
    """What no version of the rules decides."""
    yield "number", round_.round, len(campaign.rounds) + 2
    yield "incumbent", round_.incumbent_id, campaign.incumbent.id
    yield from plan_claims(round_, campaign)
    failure = None if round_.inspection is None else round_.inspection.failure
    yield "rejection by sanitizers", _rejection(round_), failure
    fraction, total = standing_after(campaign, round_.judgement, round_.decision)
    yield "roofline fraction", round_.roofline_fraction, fraction
    yield "total speedup", round_.total_speedup, total
    yield from reported_claims(round_, campaign)
    yield from transfer_claims(round_, campaign)
    yield from held_out_claims(round_, campaign)
    if campaign.rules != RULES:
        yield from _whatever_the_rules(round_, campaign)


def _whatever_the_rules(round_: Round, campaign: Campaign) -> Iterator[Claim]:
    """What conclusions of every version have in common."""
    judgement = round_.judgement
    name, recorded, follow = ratio_claim(judgement, campaign.grounds(judgement.validation))
    if recorded not in follow:
        yield name, recorded, follow[0]
    if isinstance(round_.decision, Kept):
        found = judgement.comparison
        aim = found.of(round_.hypothesis.target_class) if found is not None else None
        yield "outcome of what was kept", judgement.outcome.kind, "passed"
        enough = ("faster", "tie") if round_.decision.simpler else ("faster",)
        yield "a gain of what was kept", aim is not None and aim.verdict in enough, True


def _conclusions(round_: Round, campaign: Campaign) -> Iterator[Claim]:
    """What rules made of the facts."""
    yield "repair of round", round_.repairs, _repairable(round_, campaign)
    yield from _judgement_claims(round_, campaign)
    if isinstance(round_.decision, Kept):
        yield "a total that doesn't fall", True, round_.total_speedup >= campaign.total_speedup


def _repairable(round_: Round, campaign: Campaign) -> int | None:
    task = repair_task(campaign) if round_.repairs is not None else None
    return task.round if task is not None and task.hypothesis == round_.hypothesis else None


def _stop_findings(
    event: Stopped, number: int, state: Campaign, spent: float
) -> Iterator[VerifyFinding]:
    where, grounds = f"record {number}", state.grounds()
    if event.against_baseline is not None:
        found = event.against_baseline
        yield from _comparison_findings(where, "the baseline", found, grounds, state.rules)
    if event.generalization is not None:
        yield from _generalization_findings(event.generalization, where, state)
    if event.limits is None or event.spent_s is None:  # an older ledger's
        return
    stop = Stop(event.code, event.detail)
    follow = end_checks(state, event.limits, event.spent_s, stop)
    for check, follows in zip_longest(event.checks, follow):
        if not _agree(check, follows):
            old, new = contrasted(check, follows)
            what = f"the end's check is recorded as {old}; {new} follows"
            yield VerifyFinding(f"record {number}", what, state.rules)
    if not any(check.code == event.code and check.holds for check in follow):
        what = f"it ended by {event.code}, which doesn't hold"
        yield VerifyFinding(f"record {number}", what, state.rules)
    if event.spent_s < spent:
        what = f"{event.spent_s:.0f} s are said to be spent; the rounds alone took longer"
        yield VerifyFinding(f"record {number}", what)


def _agree(check: EndCheck | None, follows: EndCheck | None) -> bool:
    """Ledgers were written before a share of bytes alone was called that."""
    if check is None or follows is None or check == follows:
        return check == follows
    return check == follows.model_copy(update={"detail": follows.detail.replace(BYTES_ONLY, "")})


def _judgement_claims(round_: Round, campaign: Campaign) -> Iterator[Claim]:
    judgement = round_.judgement
    started = campaign.grounds(judgement.validation)
    yield "comparison", judgement.comparison, recounted(judgement, started)
    first = first_look(judgement, started)
    if judgement.confirmation:
        yield "a reason to measure again", True, first is not None and counts_twice(first)
    yield from validation_claims(round_, campaign)
    yield from timing_claims(judgement, started)
    case = Case.of(campaign, round_, judgement, _seen_dimensions(round_, started))
    case = replace(case, seen=Seen.recorded(round_), findings=round_.findings)
    yield "decision", round_.decision, decide(case.evidence)
    due = due_split(campaign)
    if round_.splits is not None:
        yield "round that it splits", round_.splits, due.round if due else None
    if round_.ablates is not None:
        change = next((r for r in campaign.kept if r.round == round_.ablates), None)
        rest = kernel_without(campaign, change) if change is not None else None
        yield "kernel without a change", round_.proposed_id, rest.id if rest else None


def _seen_dimensions(round_: Round, started: Started) -> tuple[str, ...]:
    """Dimensions that kernels see: a dispatch that was kept says which, nothing else does."""
    dispatch = round_.decision.dispatch if isinstance(round_.decision, Kept) else None
    return tuple(dispatch.within if dispatch else started.target.workloads[0].dims)


def _rejection(round_: Round) -> Incorrect | None:
    """The outcome, where it is one that only an inspection can give."""
    outcome = round_.judgement.outcome
    return outcome if by_sanitizers(outcome) else None
