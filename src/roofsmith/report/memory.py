"""`memory/v<N>.json`: a round as the next one, and later campaigns, may read it. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from statistics import geometric_mean
from typing import Final, Literal

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.experiments import experiments
from roofsmith.analysis.fractions import attainable_name, attainable_share
from roofsmith.analysis.isa_targets import isa_progress
from roofsmith.domain.bound import Bound
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.comparison import Comparison
from roofsmith.domain.experiment import Experiment
from roofsmith.domain.memory import (
    AddedNote,
    Change,
    Correctness,
    ErrorType,
    MeasuredMetric,
    Memory,
    MetricProgress,
    Optimization,
    Performance,
    PitfallAndFix,
    ProfileEvidence,
    QualityGate,
    Reference,
    Search,
)
from roofsmith.domain.outcome import Passed, TimedOut, Unstable
from roofsmith.domain.profile import Bottleneck
from roofsmith.report.prospects import expected_impact, open_directions, pitfalls, risks
from roofsmith.report.steps import steps_of
from roofsmith.report.summary import Movement, SummaryStep

_EVIDENCE_LINES = 8
_ROW = (
    "version", "round", "masked", "masked_because", "campaign", "target", "target_digest", "family",
    "device", "environment_fingerprint", "candidate_id", "incumbent_id", "repairs",
    "decision", "rule", "self_reported", "verdict", "total_speedup", "roofline_fraction", "wall_s",
)  # fmt: skip
"""What a note says as its row does."""
_STATUSES: Final[Mapping[str, Literal["PASS", "FAIL", "TIMEOUT_FAIL", "NOT_RUN"]]] = {
    "passed": "PASS", "unstable": "PASS", "incorrect": "FAIL", "cheated": "FAIL",
    "timed_out": "TIMEOUT_FAIL", "build_failed": "NOT_RUN", "crashed": "NOT_RUN",
}  # fmt: skip
"""By the kind of an outcome; of the first two where an output was compared."""
_ERROR_TYPES: Final[Mapping[str, ErrorType]] = {
    "build_failed": "compilation", "incorrect": "accuracy", "crashed": "runtime",
    "timed_out": "timeout", "cheated": "integrity", "unstable": "measurement",
}  # fmt: skip


def memory(campaign: Campaign, step: SummaryStep, row: Experiment) -> str:
    """The note of one round, as JSON."""
    content = note(campaign, step, row).model_dump(mode="json")
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def notes(campaign: Campaign) -> tuple[Memory, ...]:
    """The note of every round, the baseline's first."""
    both = zip(steps_of(campaign), experiments(campaign), strict=True)
    return tuple(note(campaign, step, row) for step, row in both)


def note(campaign: Campaign, step: SummaryStep, row: Experiment) -> Memory:
    """The note of one round; depends on no later one but for mask, commit and what was added."""
    return Memory(
        **{name: getattr(row, name) for name in _ROW},
        timestamp=row.time,
        language=campaign.started.target.language,
        outcome=step.outcome.kind,
        speedup=row.effect.speedup if row.effect else None,
        ci=row.effect.ci if row.effect else None,
        performance=_performance(campaign, step),
        optimization=_optimization(step),
        profile_evidence=_evidence(step),
        correctness=_correctness(step),
        isa_metric_progress=tuple(_progress(campaign, step)),
        search_log=tuple(_search_log(campaign, step)),
        pitfalls_and_fixes=tuple(_pitfalls(campaign, step)),
        references=tuple(_references(campaign, step)),
        quality_gate=_gate(step),
        open_directions=open_directions(step),
        git_commit_hash=row.commit,
        added=tuple(
            AddedNote(number=one.number, text=one.text, at=one.at)
            for one in sorted(campaign.noted, key=lambda one: one.number)
            if one.round == row.round
        ),
    )


def _performance(campaign: Campaign, step: SummaryStep) -> Performance:
    """Of a metric that is no time there is no latency, and no rate follows from it."""
    is_time = step.measure.is_time
    times_s = step.times_s if is_time else {}
    bounds = [campaign.bound(label) for label in times_s]
    total_s = sum(times_s.values())
    flops = _total(b.cost.flops for b in bounds)
    moved = _total(b.cost.total_bytes for b in bounds)
    return Performance(
        latency_us=total_s / len(bounds) * 1e6 if bounds else None,
        latency_us_by_shape={label: time_s * 1e6 for label, time_s in times_s.items()},
        achieved_tflops=_rate(flops, total_s, 1e12),
        achieved_gbps=_rate(moved, total_s, 1e9),
        tflops_peak_utilization_pct=_rate(_total(map(_compute_s, bounds)), total_s, 0.01),
        bandwidth_peak_utilization_pct=_rate(_total(map(_memory_s, bounds)), total_s, 0.01),
        comparison_with_previous=_change(step.comparison if is_time else None, flops, moved),
        metric=None if is_time else _metric(step),
    )


def _metric(step: SummaryStep) -> MeasuredMetric:
    measure = step.measure
    return MeasuredMetric(
        name=measure.name,
        unit=measure.unit,
        direction="higher" if measure.is_inverse else "lower",
        mean=measure.value(geometric_mean(step.times_s.values())) if step.times_s else None,
        by_shape={label: measure.value(found) for label, found in step.times_s.items()},
        delta=measure.change(step.ratio.value) if step.ratio is not None else None,
    )


def _change(found: Comparison | None, flops: float | None, moved: float | None) -> Change:
    """From the paired times of one judgement: both kernels under the same conditions."""
    if found is None:
        return Change(latency_delta=None, tflops_delta=None, bandwidth_delta=None)
    candidate_s = sum(w.candidate_time_s for w in found.workloads)
    incumbent_s = sum(w.incumbent_time_s for w in found.workloads)
    rate = incumbent_s / candidate_s - 1  # the work is the same
    return Change(
        latency_delta=candidate_s / incumbent_s - 1,
        tflops_delta=None if flops is None else rate,
        bandwidth_delta=None if moved is None else rate,
    )


def _compute_s(bound: Bound) -> float | None:
    flops = bound.cost.flops
    return flops / bound.peak.value if flops is not None and bound.peak.value else None


def _memory_s(bound: Bound) -> float | None:
    moved = bound.cost.total_bytes
    return moved / bound.bandwidth.value if moved is not None and bound.bandwidth.value else None


def _total(parts: Iterable[float | None]) -> float | None:
    """None if there is nothing to add up, or a part is UNKNOWN."""
    found = list(parts)
    known = [part for part in found if part is not None]
    return sum(known) if found and len(known) == len(found) else None


def _rate(amount: float | None, time_s: float, unit: float) -> float | None:
    return amount / time_s / unit if amount is not None and time_s > 0 else None


def _optimization(step: SummaryStep) -> Optimization:
    hypothesis = step.hypothesis
    if hypothesis is None:
        return Optimization(
            action_category="baseline",
            action_description=step.title,
            tactic=None,
            target_class="global",
            bucket="K1",
            predicted_speedup=None,
            expected_impact="none: everything later is held against it",
            risks_and_rollback="none: it isn't changed",
        )
    return Optimization(
        action_category=hypothesis.category,
        action_description=hypothesis.statement,
        tactic=hypothesis.tactic,
        target_class=hypothesis.target_class,
        bucket=hypothesis.bucket,
        predicted_speedup=hypothesis.predicted_speedup,
        expected_impact=expected_impact(step),
        risks_and_rollback=risks(step),
        base=step.base,
        hypothesis=hypothesis,
    )


def _evidence(step: SummaryStep) -> ProfileEvidence:
    profile = step.profile_after or step.profile_before
    seen = step.bottleneck_after or step.bottleneck_before
    # Clocks are the device's; the others are what the kernel did with it.
    of_kernel = [c for c in profile.counters if c.unit != "Hz"] if profile else []
    return ProfileEvidence(
        tool_used=profile.tool if profile else "none",
        evidence_summary=(
            *(seen.evidence if seen else ()),
            *(
                f"{c.name} {fmt.counter(c.value, c.unit, c.name)}"
                for c in of_kernel[:_EVIDENCE_LINES]
            ),
        ),
        bottleneck_type=seen.kind if seen else "unknown",
        evidence_chain=tuple(_chain(step)),
    )


def _chain(step: SummaryStep) -> Iterator[str]:
    hypothesis = step.hypothesis
    if hypothesis is None:
        if step.bottleneck_after is not None:
            stands = _standing(step.bottleneck_after, step.bytes_only)
            yield f"{stands}: the first change answers that"
        return
    yield from hypothesis.evidence
    if step.bottleneck_before is not None:
        stands = _standing(step.bottleneck_before, step.bytes_only)
        answered = hypothesis.answers != "unknown"
        yield f"{stands}, so the {hypothesis.answers} one is answered" if answered else stands
    yield hypothesis.statement
    if step.movement is not None and step.movement.after is not None:
        yield f"{step.movement.name}: {' -> '.join(_ends(step.movement))}"


def _standing(found: Bottleneck, bytes_only: bool) -> str:
    share = fmt.share(found.roofline_fraction, bytes_only)
    return f"bottleneck {found.kind}, {share} of the roofline"


def _correctness(step: SummaryStep) -> Correctness:
    worst = max((error.norm_error for error in step.errors), default=None)
    status = _STATUSES[step.outcome.kind]
    if isinstance(step.outcome, Passed | Unstable) and not step.errors:
        status = "NOT_RUN"
    return Correctness(rel_err=worst, status=status)


def _progress(campaign: Campaign, step: SummaryStep) -> Iterator[MetricProgress]:
    goal = campaign.started.target.goal
    fraction = step.roofline_fraction
    bounds = campaign.started.bounds
    share, aim = attainable_share(fraction, bounds), goal.roofline_fraction
    if share is not None and aim is not None:
        yield MetricProgress(
            metric=f"share of the {attainable_name(bounds)}, of the kernel that holds",
            target=f">= {fmt.percent(aim)}",
            current=fmt.share(share, step.bytes_only),
            met=share >= aim,
        )
    yield MetricProgress(
        metric="share of the roofline, of the kernel that holds",
        target="none" if aim is None else f">= {fmt.percent(aim)}",
        current=fmt.share(fraction, step.bytes_only),
        met=None if fraction is None or aim is None else fraction >= aim,
    )
    if goal.speedup is not None:
        yield MetricProgress(
            metric="speedup over the baseline",
            target=f">= {fmt.speedup(goal.speedup)}",
            current=fmt.speedup(step.total_speedup),
            met=step.total_speedup >= goal.speedup,
        )
    moved = step.movement
    if moved is not None:
        delta = step.hypothesis.expected_delta if step.hypothesis else None
        ratio = moved.after / moved.before if moved.before and moved.after is not None else None
        yield MetricProgress(
            metric=f"{moved.name}, candidate over incumbent",
            target=f"{delta:.3g}" if delta is not None else moved.expected or "moves",
            current=f"{ratio:.3g}" if ratio is not None else fmt.UNKNOWN,
            met=_went_there(ratio, delta),
        )
    for found in isa_progress(campaign, step.number):
        yield MetricProgress(
            metric=f"{found.name}, of the kernel that holds",
            target=found.target,
            current=found.current,
            met=found.met,
            baseline=found.shown(found.baseline),
            source=found.source,
        )
    claim = step.instruction
    if claim is not None:
        yield MetricProgress(
            metric=f"{claim.name} in the candidate's listing",
            target=">= 1",
            current=fmt.UNKNOWN if claim.count is None else str(claim.count),
            met=None if claim.count is None else claim.count > 0,
        )


def _went_there(ratio: float | None, delta: float | None) -> bool | None:
    """Whether a counter moved at least half of the way, which a ratio is in its logarithm."""
    if ratio is None or delta is None or ratio <= 0:
        return None
    halfway = math.sqrt(delta)
    return ratio <= halfway if delta < 1 else ratio >= halfway


def _search_log(campaign: Campaign, step: SummaryStep) -> Iterator[Search]:
    if step.number == 1 and campaign.started.tips:
        for tip in campaign.started.tips:
            yield Search(
                source="tips",
                query=f"{campaign.started.target.family or campaign.started.target.name}, "
                f"{campaign.started.target.language}",
                finding=tip.takeaway,
                actionability=tip.applicability,
            )
    searched = campaign.started.references
    if step.number == 1 and searched is not None:
        yield Search(
            source="references",
            query=searched.query,
            finding=f"{fmt.plural(len(searched.hits), 'hit')} in"
            f" {fmt.plural(searched.files, 'file')} of {', '.join(searched.folders)}",
            actionability="roofsmith knowledge references show FILE:LINE",
        )
    for one in campaign.started.learned if step.number == 1 else ():
        low, high = one.interval
        yield Search(
            source="experience",
            query=f"{one.tactic}, {one.bottleneck}",
            finding=f"{fmt.speedup(one.speedup)} [{low:.2f}, {high:.2f}] expected,"
            f" {one.kept} of {fmt.plural(one.rounds, 'round')} kept",
            actionability=f"{'worked' if one.worked else 'failed'} there: {one.change}",
        )
    if step.screened:
        looked = [p for p in step.screened if p.speedup is not None]
        best = max(looked, key=lambda p: p.speedup or 0.0, default=None)
        yield Search(
            source="sweep",
            query=f"{fmt.plural(len(step.screened), 'point')} screened",
            finding="none could be timed"
            if best is None
            else f"{best.label} looked best: {fmt.speedup(best.speedup)}",
            actionability="the best that held was proposed",
        )


def _pitfalls(campaign: Campaign, step: SummaryStep) -> Iterator[PitfallAndFix]:
    """What went wrong, and what was done about it; the baseline also names missing facts."""
    if step.number == 1:
        for missing in pitfalls(campaign):
            yield PitfallAndFix(
                error_type="unknown_fact",
                error_message=missing.what,
                root_cause="nobody measured it here, and no page of the wiki holds it",
                fix_applied=missing.fix,
                lesson="what rests on it stays UNKNOWN",
            )
    if not isinstance(step.outcome, Passed):
        detail = fmt.visible(step.outcome.detail)
        yield _rolled_back(
            _ERROR_TYPES[step.outcome.kind],
            f"{step.status} ({step.outcome.reason}): {detail}",
            step.outcome.reason,
            f"nobody knows yet whether this pays: {step.title}"
            if step.is_undecided
            else f"as it was written, {_lowered(step.title)} doesn't work here",
        )
    elif step.is_undecided:
        why = "the measurement decided nothing, for or against it"
        lesson = f"nobody knows yet whether this pays: {step.title}"
        yield _rolled_back("measurement", step.rule, why, lesson)
    elif step.mark == "rejected":
        lesson = f"{_lowered(step.title)} doesn't pay on this kernel"
        yield _rolled_back("performance", step.rule, _missed(step), lesson)


def _rolled_back(kind: ErrorType, message: str, cause: str, lesson: str) -> PitfallAndFix:
    return PitfallAndFix(
        error_type=kind,
        error_message=message,
        root_cause=cause,
        fix_applied="rolled back to the incumbent",
        lesson=lesson,
    )


def _missed(step: SummaryStep) -> str:
    """Why a correct change didn't pay, as far as the counters show it."""
    moved = step.movement
    if moved is None or moved.before is None or moved.after is None:
        return "no counter says why"
    expected = f", expected {moved.expected}" if moved.expected else ""
    return f"{moved.name} went from {' to '.join(_ends(moved))}{expected}"


def _ends(moved: Movement) -> tuple[str, str]:
    before, after = (fmt.counter(v, moved.unit, moved.name) for v in (moved.before, moved.after))
    return before, after


def _references(campaign: Campaign, step: SummaryStep) -> Iterator[Reference]:
    if step.number == 1:
        used = (f for bound in campaign.started.bounds for f in (bound.bandwidth, bound.peak))
        for fact in dict.fromkeys(used):
            if fact.citation is not None:
                yield Reference(
                    source_type="measured" if fact.citation.path.endswith(".json") else "wiki",
                    path_or_url=str(fact.citation),
                    description=str(fact),
                )
        searched = campaign.started.references
        for hit in () if searched is None else searched.hits:
            yield Reference(
                source_type="reference-project",
                path_or_url=hit.where,
                description=f"{hit.language}: {hit.symbol or hit.text}",
            )
    hypothesis = step.hypothesis
    if hypothesis is not None and hypothesis.source:
        yield Reference(
            source_type="recipe" if hypothesis.tactic.startswith("recipe:") else "other",
            path_or_url=hypothesis.source,
            description=f"where {hypothesis.tactic} is described",
        )


def _gate(step: SummaryStep) -> QualityGate:
    if step.mark in ("baseline", "kept") and isinstance(step.outcome, Passed):
        return QualityGate(result="PASS", failure_reason=None)
    timed_out = isinstance(step.outcome, TimedOut)
    return QualityGate(result="TIMEOUT_FAIL" if timed_out else "FAIL", failure_reason=step.rule)


def _lowered(title: str) -> str:
    return f"{title[:1].lower()}{title[1:].rstrip('.')}"
