"""Results as JSON documents: plain dictionaries in SI units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from roofsmith.analysis.compare import LOOK_ERROR_RATE
from roofsmith.analysis.compiled import candidates_for, described
from roofsmith.analysis.departures import departures
from roofsmith.analysis.doubt import doubt_about
from roofsmith.analysis.figures import one_line, plural
from roofsmith.analysis.fractions import attainable_share, final_fraction, held_fraction
from roofsmith.analysis.heard import time_intervals
from roofsmith.analysis.spending import Spending, spendings
from roofsmith.asking.brief import CHARACTERS_PER_TOKEN, document, markdown
from roofsmith.asking.evidence import telling_counters
from roofsmith.domain.bound import Bound
from roofsmith.domain.calibration import Calibration
from roofsmith.domain.campaign import Campaign, Round, Stopped
from roofsmith.domain.comparison import Judgement, Timing, WorkloadComparison, worst_of_outputs
from roofsmith.domain.dashboard import CONTRACT
from roofsmith.domain.diagnosis import Diagnosis
from roofsmith.domain.inspection import Inspection
from roofsmith.domain.kernel import KernelResources
from roofsmith.domain.measure import TIME, Measure
from roofsmith.domain.outcome import Outcome, Passed
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.target import Target
from roofsmith.report.arithmetic import limiter_words, target_time_s
from roofsmith.report.rates import ceilings_used, rates
from roofsmith.report.standings import yardstick_rows
from roofsmith.report.summarize import summarize
from roofsmith.report.summary import Ratio, Summary, Unseen, YardstickRow

if TYPE_CHECKING:  # they are slow to import
    from roofsmith.api.benching import Benched
    from roofsmith.api.finished import FinishedCampaign
    from roofsmith.api.looking import Look
    from roofsmith.api.session import SessionState, ToldRounds
    from roofsmith.api.steps import Roofline
    from roofsmith.api.verification import Verification
    from roofsmith.engine.stopping import Stop
    from roofsmith.engine.verify import VerifyFinding
    from roofsmith.ports import Measured


def judgement_document(judgement: Judgement, measure: Measure = TIME) -> dict[str, Any]:
    """The object that `roofsmith kernel judge --json` prints."""
    comparison = judgement.comparison
    return {
        **outcome_fields(judgement.outcome),
        "verdict": judgement.verdict,
        **({"self_reported": True} if judgement.self_reported else {}),
        "speedup": comparison.overall.speedup if comparison else None,
        "ci": list(comparison.overall.ci) if comparison else None,
        "wall_s": judgement.wall_s,
        "workloads": [_workload(w, measure) for w in comparison.workloads] if comparison else [],
        "isolation": judgement.isolation,
        "notes": list(judgement.notes),
    }


def outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """Outcome, reason and detail; a failure names its log as well."""
    match outcome:
        case Passed():
            return {"outcome": outcome.kind, "reason": None, "detail": outcome.detail}
        case _:
            log = None if outcome.log is None else str(outcome.log)
            failure = {"outcome": outcome.kind, "reason": outcome.reason, "detail": outcome.detail}
            return {**failure, "log": log}


def measured_document(measured: Measured, measure: Measure = TIME) -> dict[str, Any]:
    """What checking, and perhaps timing, one kernel gave."""
    return {
        **outcome_fields(measured.outcome),
        **metric_fields(measure),
        "timings": [_timing(timing, measure) for timing in measured.timings],
        "errors": [report.model_dump(mode="json") for report in measured.errors],
        "resources": [kernel.model_dump(mode="json") for kernel in measured.resources],
        **_inspection(measured.inspection),
        "isolation": measured.isolation,
        "notes": list(measured.notes),
    }


def _inspection(inspection: Inspection | None) -> dict[str, Any]:
    return (
        {}
        if inspection is None
        else {"inspection": inspection.model_dump(mode="json", exclude={"kind"})}
    )


def bottlenecks_document(found: Sequence[tuple[str, Bottleneck]]) -> dict[str, Any]:
    """What limits a kernel on each workload."""
    each = [{"workload": label, **one.model_dump(mode="json")} for label, one in found]
    return {"bottlenecks": each}


def round_document(round_: Round, campaign: Campaign) -> dict[str, Any]:
    """One round without its raw samples; those are in the ledger."""
    target, doubt = campaign.started.target, doubt_about(round_, campaign)
    return {
        "round": round_.round,
        "repairs": round_.repairs,
        "splits": round_.splits,
        "ablates": round_.ablates,
        "base": round_.base,
        "diverged": round_.decision.kind == "rolled_back" and round_.decision.diverged,
        "unsplit": round_.unsplit,
        "dispatch": _dispatch(round_),
        "hypothesis": round_.hypothesis.statement,
        "tactic": round_.hypothesis.tactic,
        "category": round_.hypothesis.category,
        "decision": round_.decision.kind,
        "rule": round_.decision.rule,
        "doubt": None if doubt is None else asdict(doubt),
        "flags": list(round_.candidate.build.flags),
        **judgement_document(round_.judgement, target.measure),
        "workloads": _before_and_after(round_.judgement, target),
        "errors": [
            report.model_dump(mode="json") for report in worst_of_outputs(round_.judgement.errors)
        ],
        "resources": [described(kernel) for kernel in _compiled(round_)],
        **_inspection(round_.inspection),
        "unsourced": list(round_.unsourced),
        "beside_its_idea": list(departures(campaign, round_)),
        "roofline_fraction": round_.roofline_fraction,
        "total_speedup": round_.total_speedup,
        "proposer": round_.proposer,
        "tokens": round_.tokens,
        "cost_usd": round_.cost_usd,
        "wall_s": round_.wall_s,
    }


def _compiled(round_: Round) -> tuple[KernelResources, ...]:
    return () if round_.profile is None else candidates_for(round_.profile)


def look_document(found: Look) -> dict[str, Any]:
    """A look: as a judgement, but that its pairs decide nothing."""
    judged = judgement_document(found.judgement, found.measure)
    left_out = found.workloads - len(judged["workloads"]) if found.is_right else None
    return {
        "right": found.is_right,
        **{name: value for name, value in judged.items() if name != "verdict"},
        "error_rate": LOOK_ERROR_RATE,
        "workloads_left_out": left_out,
        "cited": found.cited,
        "stale": list(found.stale),
        "remarks": list(found.remarks),
        "decides": "nothing",
    }


def told_document(found: ToldRounds) -> dict[str, Any]:
    """A round from outside, with that of its dispatch and the end that they led to.

    Where the change was refused there is no round: `refused` says why.
    """
    documents = (round_document(round_, found.campaign) for round_ in found.rounds)
    told, split = next(documents, {}), tuple(documents)
    return {
        **told,
        "refused": None if found.refusal is None else refusal_document(found.refusal),
        **metric_fields(found.measure),
        "dispatch_round": split[0] if split else None,
        "stopped": _stopped(found.stopped),
        "remarks": list(found.remarks),
    }


def refusal_document(refusal: Refusal) -> dict[str, Any]:
    """A proposal that was never built, and why."""
    return {
        "after_round": refusal.after_round,
        "reason": refusal.reason,
        "detail": refusal.detail,
        "proposer": refusal.proposer,
        "hypothesis": None if refusal.hypothesis is None else refusal.hypothesis.statement,
        "tokens": refusal.tokens,
        "cost_usd": refusal.cost_usd,
    }


def _dispatch(round_: Round) -> dict[str, Any] | None:
    dispatch = round_.decision.dispatch if round_.decision.kind == "kept" else None
    if dispatch is None:
        return None
    return {"rule": dispatch.rule.text, "new": list(dispatch.new), "old": list(dispatch.old)}


def finished_document(finished: FinishedCampaign) -> dict[str, Any]:
    """A campaign's result."""
    from roofsmith.api.dashboard import campaign_row, id_of  # slow to import, too

    campaign, place = finished.campaign, finished.directory.absolute()
    summary = summarize(campaign)
    stopped, measure = campaign.stopped, campaign.started.target.measure
    baseline = campaign.baseline.timings if campaign.baseline else ()
    return {
        "schema_version": CONTRACT,
        "row": campaign_row(campaign, id_of(place), place, works=False).model_dump(mode="json"),
        "campaign": campaign.started.campaign,
        "directory": str(finished.directory),
        "report": str(finished.report),
        "branch": finished.branch,
        "stopped": _stopped(stopped),
        "self_reported": campaign.started.target.command is not None,
        **metric_fields(measure),
        "total_speedup": campaign.total_speedup,
        **headline_fields(summary),
        "held_out": held_out_document(summary.unseen),
        "roofline_fraction": final_fraction(campaign),
        "attainable_fraction": attainable_share(final_fraction(campaign), campaign.started.bounds),
        "wall_s": finished.wall_s,
        "overhead_fraction": finished.overhead_fraction,
        "baseline": [_timing(t, measure) for t in baseline],
        "final": [_timing(t, measure) for t in stopped.final_timings] if stopped else [],
        "rounds": [round_document(round_, campaign) for round_ in campaign.rounds],
        "refused": [refusal_document(refusal) for refusal in campaign.refusals],
        "proposers": [spending_document(found) for found in spendings(campaign)],
        "notes": list(finished.notes),
    }


_LONGEST = 400
_OF_BRIEF = (
    "timing", "notes", "workloads", "listing", "open_again", "bases", "planned", "limits",
    "experience", "commands",
)  # fmt: skip
"""Parts of `asks/round-N/brief.json` that `roofsmith ask` prints as they are there."""


def standing_document(standing: SessionState) -> dict[str, Any]:
    """All that an outside proposer needs for its next change.

    Of counters it has those that the brief shows; `roofsmith campaign show DIR counters` has all
    of them.
    """
    brief = standing.brief
    campaign = brief.campaign
    measure = campaign.started.target.measure
    return {
        "campaign": campaign.started.campaign,
        "directory": str(standing.directory),
        "next_round": len(campaign.rounds) + 2,
        "stop": stop_of(standing),
        "incumbent": {
            "id": brief.incumbent.id,
            "language": brief.incumbent.language,
            "kernel": brief.incumbent.kernel.path,
            "sources": {source.path: source.text for source in brief.incumbent.sources},
            "build": brief.incumbent.build.model_dump(mode="json"),
            **_by_workload(campaign.times_s, measure),
        },
        "repair": None if brief.repair is None else brief.repair.model_dump(mode="json"),
        "diagnosis": diagnosis_document(brief.diagnosis, measure),
        "calibration": [calibration_document(found) for found in brief.calibration],
        "contract": standing.contract,
        "command": _command(campaign.started.target),
        **metric_fields(measure),
        "signature": brief.signature.model_dump(mode="json"),
        "device": brief.device.model_dump(mode="json"),
        "threads": brief.threads,
        "bottleneck": brief.bottleneck.model_dump(mode="json"),
        "profile": _profile(brief.profile, brief.bottleneck),
        "roofline": [_bound(bound) for bound in brief.bounds if bound.floor_time_s is not None],
        "roofline_unknown": _without_floor(brief.bounds),
        "roofline_fraction": held_fraction(campaign),
        "total_speedup": campaign.total_speedup,
        "classes": [class_.model_dump(mode="json") for class_ in brief.classes],
        "history": [round_document(round_, campaign) for round_ in brief.remembered],
        "refused": [refusal_document(refusal) for refusal in campaign.refusals],
        "masked": sorted(brief.masked),
        "tips": [tip.model_dump(mode="json") for tip in campaign.started.tips],
        **{name: standing.document[name] for name in _OF_BRIEF if name in standing.document},
    }  # fmt: skip


def _profile(profile: Profile, bottleneck: Bottleneck) -> dict[str, Any]:
    """What a profiler saw, with the counters that tell most of the bottleneck."""
    counters = tuple(telling_counters(profile, bottleneck.kind).values())
    return profile.model_copy(update={"counters": counters}).model_dump(mode="json")


def _by_workload(recorded: Mapping[str, float], measure: Measure) -> dict[str, dict[str, float]]:
    """What was measured, slowest first: `times_s`, or `values` of what is no time."""
    slowest = dict(sorted(recorded.items(), key=lambda row: -row[1]))
    if measure.is_time:
        return {"times_s": slowest}
    return {"values": {label: measure.value(one) for label, one in slowest.items()}}


def _without_floor(bounds: Sequence[Bound]) -> str | None:
    """How many workloads have no roofline, and why; None: all have one."""
    lacking = [bound for bound in bounds if bound.floor_time_s is None]
    if not lacking:
        return None
    why = "; ".join(dict.fromkeys(bound.reason for bound in lacking if bound.reason))
    return one_line(f"{len(lacking)} of {plural(len(bounds), 'workload')}: {why}", _LONGEST)


def _bound(bound: Bound) -> dict[str, Any]:
    cost = bound.cost
    return {
        **bound.model_dump(
            mode="json", include={"workload", "intensity", "ridge", "limiter", "floor_time_s"}
        ),
        "working_set": bound.place,
        "flops": cost.flops,
        "bytes": cost.total_bytes,
        "dtype": cost.dtype,
        "bandwidth": str(bound.bandwidth),
        "peak": str(bound.peak),
        "reason": bound.reason,
    }


def brief_text(standing: SessionState, most_characters: int) -> str:
    """The brief as a model reads it, with less in it where it would be longer."""
    text = standing.markdown
    if len(text) <= most_characters:
        return text
    found = standing.document or document(standing.brief, standing.directory)
    return markdown(found, int(most_characters / CHARACTERS_PER_TOKEN))


def diagnosis_document(found: Diagnosis | None, measure: Measure = TIME) -> dict[str, Any] | None:
    """What is known after rollbacks; None: nothing had to be looked at."""
    if found is None:
        return None
    document = found.model_dump(mode="json")
    material = document["material"]
    for row, seen in zip(material["profiles"], found.material.profiles, strict=True):
        row["profile"] = _profile(seen.profile, seen.bottleneck)
    for row in (*material["profiles"], *(material["best_known"] or {"gaps": ()})["gaps"]):
        row |= value_fields("time_s", row["time_s"], measure)
    return document


def _command(target: Target) -> dict[str, Any] | None:
    return target.command.model_dump(mode="json") if target.command else None


def stop_of(standing: SessionState) -> dict[str, str] | None:
    """Why the loop would not go on: a condition that holds now, or the last recorded stop."""
    return _stopped(standing.stop or standing.brief.campaign.stopped)


def _stopped(stop: Stop | Stopped | None) -> dict[str, str] | None:
    return None if stop is None else {"code": stop.code, "detail": stop.detail}


def verification_document(verification: Verification) -> dict[str, Any]:
    """What was checked, and what doesn't follow."""
    return {
        "verified": not verification.findings,
        "records": verification.records,
        "rounds": verification.rounds,
        "commits": verification.commits,
        "findings": _said(verification.findings),
        "other_rules": list(verification.versions),
        "notes": _said(verification.notes),
        "unchecked": _said(verification.unchecked),
    }


def _said(findings: Sequence[VerifyFinding]) -> list[dict[str, str]]:
    return [{"where": found.where, "what": found.what} for found in findings]


def _workload(workload: WorkloadComparison, measure: Measure) -> dict[str, Any]:
    return {
        "dims": workload.dims,
        "class": workload.config_class,
        "speedup": workload.estimate.speedup,
        "ci": list(workload.estimate.ci),
        **value_fields("candidate_time_s", workload.candidate_time_s, measure),
        **value_fields("incumbent_time_s", workload.incumbent_time_s, measure),
        "floor_time_s": workload.floor_time_s,
    }


def _before_and_after(judgement: Judgement, target: Target) -> list[dict[str, Any]]:
    """Workloads with intervals and the roofline's shares of both kernels' times."""
    measure, rows = target.measure, list[dict[str, Any]]()
    for one in judgement.comparison.workloads if judgement.comparison is not None else ():
        row, ends = _workload(one, measure), time_intervals(judgement, one, target.keep.error_rate)
        times_s = one.incumbent_time_s, one.candidate_time_s
        for name, time_s, ci in zip(("incumbent", "candidate"), times_s, ends, strict=True):
            row[f"{name}_ci"] = None if ci is None else list(measure.interval(ci))
            share = None if one.floor_time_s is None else one.floor_time_s / time_s
            row[f"{name}_roofline_fraction"] = share
        rows.append(row)
    return rows


def _timing(timing: Timing, measure: Measure) -> dict[str, Any]:
    fraction = None if timing.floor_time_s is None else timing.floor_time_s / timing.time_s
    return {
        "dims": timing.dims,
        "class": timing.config_class,
        **value_fields("time_s", timing.time_s, measure),
        "ci": list(measure.interval(timing.ci)),
        "floor_time_s": timing.floor_time_s,
        "roofline_fraction": fraction,
        "hot_time_s": timing.hot_time_s,
        "launch_time_s": timing.launch_time_s,
    }


def benched_document(found: Benched) -> dict[str, Any]:
    """What `check` prints, rates with every timing, and the yardsticks."""
    document = measured_document(found.measured, found.measure)
    bounds = {bound.workload: bound for bound in found.bounds}
    reached = (rates(bounds[t.workload], t.time_s) for t in found.measured.timings)
    timings = zip(document["timings"], reached, strict=True)
    return {
        **document,
        "timings": [{**timing, **asdict(rate)} for timing, rate in timings],
        "ceilings": [fact.model_dump(mode="json") for fact in ceilings_used(found.bounds)],
        "profile": found.profile.model_dump(mode="json") if found.profile else None,
        "yardsticks": [yardstick_document(row) for row in yardstick_rows(found.yardsticks)],
    }


def roofline_document(found: Roofline) -> dict[str, Any]:
    """What a machine allows of a target, and the facts that this rests on."""
    survey = found.survey
    device, sheet = survey.environment.device, survey.facts.datasheet
    return {
        "platform": device.name if sheet is None else sheet.product,
        "arch": (None if sheet is None else sheet.arch) or device.arch,
        "plugged_in": found.on_paper is None,
        "device": device.model_dump(mode="json"),
        "threads": survey.threads,
        "ceilings": found.ceilings,
        "goal": found.goal.model_dump(mode="json"),
        "bounds": [
            {
                **bound.model_dump(mode="json"),
                "target_time_s": target_time_s(bound, found.goal),
                "limited_by": limiter_words(bound),
            }
            for bound in survey.bounds
        ],
        "classes": [class_.model_dump(mode="json") for class_ in survey.classes],
        "facts": survey.facts.model_dump(mode="json"),
    }


def headline_fields(summary: Summary) -> dict[str, Any]:
    """The speedup to tell a user; beside it the product of the kept rounds, often the same."""
    return {**_ratio(summary.headline), "speedup_product": _ratio(summary.speedup)}


def metric_fields(measure: Measure) -> dict[str, Any]:
    """What the values of a document are, where they aren't times."""
    if measure.is_time:
        return {}
    way = "higher" if measure.is_inverse else "lower"
    return {"metric": {"name": measure.name, "unit": measure.unit, "direction": way}}


def value_fields(key: str, recorded: float | None, measure: Measure) -> dict[str, float | None]:
    """What was measured, under a key that ends in `time_s`.

    That is null for what is no time, whose value stands under the key with `value` at its end.
    """
    if measure.is_time:
        return {key: recorded}
    value = None if recorded is None else measure.value(recorded)
    return {key: None, f"{key.removesuffix('time_s')}value": value}


def held_out_document(found: Unseen | None) -> dict[str, Any] | None:
    """The final kernel on workloads that no proposer was shown, and how far it falls short."""
    if found is None:
        return None
    return {
        "workloads": list(found.workloads),
        **_ratio(found.speedup),
        "generalization_gap": found.gap,
        "failure": found.failure,
    }


def calibration_document(found: Calibration) -> dict[str, Any]:
    """How far one proposer's predictions of a kind of change can be trusted."""
    return {**found.model_dump(mode="json"), "hit_share": found.hit_share}


def spending_document(found: Spending) -> dict[str, Any]:
    """What one proposer took; `tokens` and `cost_usd` are null where nobody knows."""
    return {**asdict(found), "kept_share": found.kept_share}


def yardstick_document(row: YardstickRow) -> dict[str, Any]:
    """The kernel against a yardstick; `workload` is null for all of them together."""
    return {
        "name": row.name,
        "workload": row.workload,
        "time_s": row.time_s,
        "kernel_time_s": row.kernel_time_s,
        **_ratio(row.speedup),
        "failure": row.failure,
    }


def _ratio(ratio: Ratio | None) -> dict[str, Any]:
    if ratio is None:
        return {"speedup": None, "ci": None}
    return {"speedup": ratio.value, "ci": list(ratio.ci)}
