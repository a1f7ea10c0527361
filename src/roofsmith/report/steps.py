"""Rounds as steps: what each one tried, what came of it, and what it stood on. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.bases import bundle
from roofsmith.analysis.calibration import round_score
from roofsmith.analysis.departures import departures
from roofsmith.analysis.figures import first_line
from roofsmith.analysis.fractions import fraction_of_timings
from roofsmith.analysis.hypotheses import lines
from roofsmith.analysis.instructions import counted
from roofsmith.analysis.kernel_times import kernel_estimate
from roofsmith.analysis.ladder import needs_diagnosis
from roofsmith.analysis.stagnation import turned
from roofsmith.domain.campaign import Baseline, Campaign, Kept, RolledBack, Round
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.dispatch import Dispatch
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.outcome import Outcome, Passed
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.domain.target import KeepPolicy
from roofsmith.report.diagnoses import diagnosis_path, score_lines
from roofsmith.report.diffs import candidate_diff
from roofsmith.report.reported import metric_rows
from roofsmith.report.summary import InstructionClaim, Mark, Movement, Ratio, Summary, SummaryStep


@dataclass(frozen=True, slots=True)
class _Holder:
    candidate: Candidate
    profile: Profile
    bottleneck: Bottleneck
    total: float

    def after(self, round: Round) -> _Holder:
        """Who holds after this round. A kept round without a profile inherits the old one."""
        match round.decision:
            case RolledBack():
                return self
            case Kept():
                return _Holder(
                    candidate=round.candidate,
                    profile=round.profile or self.profile,
                    bottleneck=round.bottleneck or self.bottleneck,
                    total=round.total_speedup,
                )
            case _:
                assert_never(round.decision)


def steps_of(
    campaign: Campaign, wanted: Callable[[Round], bool] = lambda _: True
) -> Iterator[SummaryStep]:
    """Every round in order; a step depends on the rounds before it and on no later one.

    Args:
        campaign: whose.
        wanted: rounds that are told; the baseline always is.
    """
    baseline = campaign.baseline
    if baseline is None:
        return
    target = campaign.started.target
    self_reported, measure = target.command is not None, target.measure
    bytes_only = campaign.started.bytes_only
    yield replace(
        _baseline_step(baseline),
        self_reported=self_reported,
        measure=measure,
        bytes_only=bytes_only,
    )
    holder = _Holder(baseline.candidate, baseline.profile, baseline.bottleneck, 1.0)
    noise_band = target.keep.noise_band
    diagnosed = {event.after_round: event for event in campaign.diagnoses}
    for round in campaign.rounds:
        if not wanted(round):
            holder = holder.after(round)
            continue
        score = round_score(round, holder.profile, noise_band)
        event = diagnosed.get(round.round - 1) if needs_diagnosis(round) else None
        yield replace(
            _round_step(round, holder),
            hypothesis_lines=lines(round.hypothesis, bundle(campaign, round.base)),
            base=round.base,
            departures=departures(campaign, round),
            predictions=score_lines(score),
            instruction=_claim(round),
            diagnosis=None if event is None else (event.level, diagnosis_path(event)),
            direction=""
            if event is None
            else turned(round.hypothesis.category, event.material.review),
            representative=_alone(round, baseline),
            self_reported=self_reported,
            measure=measure,
            bytes_only=bytes_only,
        )
        holder = holder.after(round)


def _alone(round: Round, baseline: Baseline) -> tuple[str, ...]:
    """The workloads that a quick judgement was made on."""
    return baseline.representative if round.judgement.validation == "quick" else ()


def held_profile(summary: Summary) -> Profile | None:
    """What the profiler saw of the kernel that holds; None if it wasn't looked at."""
    held = [step for step in summary.steps if step.mark in ("baseline", "kept")]
    return held[-1].profile_after if held else None


def status_of(outcome: Outcome) -> str:
    """An outcome in a word or two, for tables."""
    return outcome.kind.replace("_", " ")


def _baseline_step(baseline: Baseline) -> SummaryStep:
    passed = isinstance(baseline.outcome, Passed)
    return SummaryStep(
        number=1,
        mark="baseline",
        status="baseline" if passed else status_of(baseline.outcome),
        title="The unmodified kernel",
        at=baseline.at,
        wall_s=baseline.wall_s,
        kernel_s=baseline.kernel_s,
        candidate_id=baseline.candidate.id,
        commit=baseline.commit,
        outcome=baseline.outcome,
        level=Ratio(1.0, (1.0, 1.0)) if passed else None,
        total_speedup=1.0,
        roofline_fraction=fraction_of_timings(baseline.timings),
        rule="the starting point: every later kernel is compared with its predecessor",
        bottleneck_after=baseline.bottleneck,
        profile_after=baseline.profile,
        times_s={timing.workload: timing.time_s for timing in baseline.timings},
        errors=baseline.errors,
        representative=baseline.representative,
    )


def _round_step(round: Round, holder: _Holder) -> SummaryStep:
    judgement = round.judgement
    comparison = judgement.comparison
    ratio = None
    if comparison is not None and isinstance(judgement.outcome, Passed):
        ratio = Ratio(comparison.overall.speedup, comparison.overall.ci)
    mark, status = mark_of(round)
    by_profiler = _by_profiler(judgement)
    counting = by_profiler or ratio
    return SummaryStep(
        number=round.round,
        mark=mark,
        simpler=isinstance(round.decision, Kept) and round.decision.simpler,
        status=status,
        title=round.hypothesis.statement,
        at=round.at,
        wall_s=round.wall_s,
        kernel_s=round.kernel_s,
        candidate_id=round.candidate.id,
        incumbent_id=round.incumbent_id,
        commit=round.commit,
        hypothesis=round.hypothesis,
        proposer=round.proposer,
        outcome=judgement.outcome,
        verdict=judgement.verdict,
        ratio=ratio,
        level=counting.over(holder.total) if counting is not None else None,
        total_speedup=round.total_speedup,
        roofline_fraction=round.roofline_fraction,
        rule=round.decision.rule,
        bottleneck_before=holder.bottleneck,
        bottleneck_after=round.bottleneck,
        profile_before=holder.profile,
        profile_after=round.profile,
        movement=_movement(round, holder.profile),
        comparison=comparison,
        times_s={w.workload: w.candidate_time_s for w in comparison.workloads}
        if comparison is not None
        else {},
        errors=judgement.errors,
        notes=judgement.notes,
        transfer=round.transfer,
        inspection=round.inspection,
        unsourced=round.unsourced,
        isolation=judgement.isolation,
        pairs=(len(judgement.samples), len(judgement.confirmation)),
        formatting=round.formatting,
        screened=round.screened,
        diff=candidate_diff(holder.candidate, round.candidate),
        repairs=round.repairs,
        dispatches=dispatch_lines(round),
        metrics=metric_rows(judgement.metrics),
        kernel_ratio=by_profiler,
    )


def counting_ratio(judgement: Judgement) -> Ratio | None:
    """Of what passed, over what it was judged against, by whoever has the last word on it."""
    found = judgement.comparison
    if found is None or not isinstance(judgement.outcome, Passed):
        return None
    return _by_profiler(judgement) or Ratio(found.overall.speedup, found.overall.ci)


def why_unmeasured(judgement: Judgement, passed: str) -> str:
    """Why a judgement has no ratio; `passed` is said of what didn't fail."""
    outcome = judgement.outcome
    if isinstance(outcome, Passed):
        return passed
    return f"{status_of(outcome)}: {first_line(outcome.detail) or outcome.reason}"


def _by_profiler(judgement: Judgement) -> Ratio | None:
    found = kernel_estimate(judgement.kernels, KeepPolicy())
    return Ratio(found.speedup, found.ci) if found else None


def mark_of(round: Round) -> tuple[Mark, str]:
    """What became of a round, and the same in a word or two."""
    outcome = round.judgement.outcome
    match round.decision:
        case Kept():
            return "kept", "kept"
        case RolledBack() if not isinstance(outcome, Passed):
            return "failed", status_of(outcome)
        case RolledBack():
            measured = round.judgement.comparison is not None
            # A rejected win (one workload vetoed it, say) must not be listed as "faster".
            verdict = round.judgement.verdict
            status = "rolled back" if verdict in ("faster", "rejected") else verdict
            return ("rejected" if measured else "failed"), status
        case _:
            assert_never(round.decision)


def _claim(round: Round) -> InstructionClaim | None:
    claim, found = round.hypothesis.expected_instruction, round.disassembly
    if claim is None:
        return None
    if found is not None and found.mnemonics:
        return InstructionClaim(claim, counted(claim, found.mnemonics))
    missing = () if found is None else found.missing
    return InstructionClaim(claim, None, "; ".join(missing) or "it was never disassembled")


def _movement(round: Round, before: Profile) -> Movement | None:
    name = round.hypothesis.expected_counter
    if name is None:
        return None
    after = round.profile
    counters = (*before.counters, *(after.counters if after is not None else ()))
    unit = next((counter.unit for counter in counters if counter.name == name), "")
    return Movement(
        name=name,
        unit=unit,
        expected=round.hypothesis.expected_change,
        before=before.get(name),
        after=after.get(name) if after is not None else None,
    )


def dispatch_lines(round_: Round) -> tuple[str, ...]:
    """What a round has to do with dispatches, a line each; none for most."""
    lines = []
    if round_.splits is not None:
        lines.append(f"the dispatch of round {round_.splits}, whose config classes diverged")
    decision = round_.decision
    if isinstance(decision, Kept):
        if decision.dispatch is not None:
            lines += _who_runs_what(decision.dispatch, round_)
    elif decision.diverged:
        follows = (
            f"no dispatch follows: {round_.unsplit}"
            if round_.unsplit
            else "a dispatch is judged next"
        )
        lines.append(f"config classes diverged in both measurements; {follows}")
    return tuple(lines)


def _who_runs_what(dispatch: Dispatch, round_: Round) -> list[str]:
    comparison = round_.judgement.comparison
    speedups = (
        {c.config_class: c.estimate.speedup for c in comparison.classes} if comparison else {}
    )
    sizes = ", ".join(
        f"{name} {low}" if low == high else f"{name} {low} to {high}"
        for name, (low, high) in dispatch.within.items()
    )

    def named(classes: tuple[str, ...]) -> str:
        return ", ".join(
            f"{name} ({fmt.speedup(speedups[name])})" if name in speedups else name
            for name in classes
        )

    return [
        f"{named(dispatch.new)}: round {dispatch.splits}'s kernel, where {dispatch.rule.text}",
        f"{named(dispatch.old)}: the kernel before it, as whatever is outside of {sizes}",
    ]
