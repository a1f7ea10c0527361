"""A campaign's summary as one JSON object: SI units, no samples, nothing rounded. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from roofsmith.analysis.spending import Spending
from roofsmith.domain.calibration import Calibration
from roofsmith.domain.measure import Measure
from roofsmith.domain.outcome import Passed
from roofsmith.report.standings import ClassStandings
from roofsmith.report.summary import (
    Attribution,
    ClassRow,
    Ratio,
    Step,
    Summary,
    Unseen,
    WorkloadRow,
    YardstickRow,
)
from roofsmith.report.transfer import bucket_of


def summary_document(summary: Summary) -> dict[str, Any]:
    """What `--json` prints of a campaign. What isn't known is null."""
    return {
        "campaign": summary.campaign,
        "target": summary.name,
        "kernel": summary.kernel_path,
        "family": summary.family,
        "device": summary.device,
        "threads": summary.threads,
        "started_at": summary.started_at,
        "state": summary.state,
        "self_reported": summary.self_reported is not None,
        **metric_fields(summary.measure),
        "stopped": _stopped(summary),
        **headline_fields(summary),
        "speedup_alone": summary.alone,
        "speedup_measured_at_end": _ratio(summary.measured),
        "held_out": held_out_document(summary.unseen),
        "roofline_fraction": summary.fraction,
        "baseline_roofline_fraction": summary.baseline_fraction,
        "goal_roofline_fraction": summary.goal_fraction,
        "limit_speedup": summary.limit_speedup,
        "limiter": summary.limiter,
        "candidate_id": summary.candidate_id,
        "attribution": _attribution(summary.attribution),
        "totals": _totals(summary),
        "workloads": [_workload(row, summary.measure) for row in summary.workloads],
        "classes": [_class(row) for row in summary.classes],
        "yardsticks": [yardstick_document(row) for row in summary.yardsticks],
        "standings": [
            standing
            for block in summary.standings
            for standing in _standings(block, summary.measure)
        ],
        "rounds": [_step(step) for step in summary.steps],
        "calibration": [calibration_document(found) for found in summary.calibrations],
        "proposers": [spending_document(found) for found in summary.spendings],
        "diagnoses": [
            {"after_round": after, "level": level, "file": path}
            for after, level, path in summary.diagnoses
        ],
        "next_steps": [
            {"title": step.title, "why": step.why, "command": step.command}
            for step in summary.next_steps
        ],
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


def _standings(block: ClassStandings, measure: Measure) -> list[dict[str, Any]]:
    """One object per class and implementation; the ratio is how much faster the kernel is."""
    return [
        {
            "class": block.name,
            "role": row.role,
            "name": row.name,
            **value_fields("time_s", row.time_s, measure),
            "roofline_fraction": row.fraction,
            **_ratio(row.ratio),
        }
        for row in block.rows
    ]


def calibration_document(found: Calibration) -> dict[str, Any]:
    """How far one proposer's predictions of a kind of change can be trusted."""
    return {**found.model_dump(mode="json"), "hit_share": found.hit_share}


def spending_document(found: Spending) -> dict[str, Any]:
    """What one proposer took; `cost_usd` is null where nobody knows what it cost."""
    return {**asdict(found), "kept_share": found.kept_share}


def _attribution(found: Attribution | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "s_real": found.structural,
        "w_real": found.weights,
        "r_real": found.residual,
        "headline": found.headline,
        "inflation_gap": found.gap,
        "inflated": found.is_inflated,
        "rounds": list(found.rounds),
    }


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


def _stopped(summary: Summary) -> dict[str, Any] | None:
    if summary.stop_code is None:
        return None
    return {
        "code": summary.stop_code,
        "detail": summary.stop_detail,
        "at": summary.stopped_at,
        "checks": [
            {"condition": name, "code": check.code, "holds": check.holds, "detail": check.detail}
            for name, check in (summary.ending.checks if summary.ending is not None else ())
        ],
        "regressions": [
            regression.number
            for regression in (summary.ending.regressions if summary.ending is not None else ())
        ],
    }


def _ratio(ratio: Ratio | None) -> dict[str, Any]:
    if ratio is None:
        return {"speedup": None, "ci": None}
    return {"speedup": ratio.value, "ci": list(ratio.ci)}


def _totals(summary: Summary) -> dict[str, Any]:
    totals = summary.totals
    return {
        "rounds": totals.tried,
        "kept": totals.kept,
        "rejected": totals.rejected,
        "failed": totals.failed,
        "screened": totals.screened,
        "wall_s": totals.wall_s,
        "kernel_s": totals.kernel_s,
        "overhead_fraction": totals.overhead,
    }


def _workload(row: WorkloadRow, measure: Measure) -> dict[str, Any]:
    return {
        "dims": row.dims,
        "class": row.config_class,
        **value_fields("baseline_time_s", row.baseline_time_s, measure),
        **value_fields("final_time_s", row.final_time_s, measure),
        **_ratio(row.speedup),
        "floor_time_s": row.floor_time_s,
        "roofline_fraction": row.fraction,
        "limiter": row.bound.limiter,
    }


def _class(row: ClassRow) -> dict[str, Any]:
    return {
        "class": row.name,
        "reason": row.reason,
        "workloads": list(row.workloads),
        **_ratio(row.speedup),
        "roofline_fraction": row.fraction,
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "round": step.number,
        "repairs": step.repairs,
        "base": step.base,
        "hypothesis": step.hypothesis.statement if step.hypothesis is not None else None,
        "proposer": step.proposer or None,
        "tactic": step.hypothesis.tactic if step.hypothesis is not None else None,
        "category": step.hypothesis.category if step.hypothesis is not None else None,
        "predictions": list(step.predictions),
        "outcome": step.outcome.kind,
        "reason": None if isinstance(step.outcome, Passed) else step.outcome.reason,
        "detail": step.outcome.detail,
        "verdict": step.verdict,
        "representative": list(step.representative),
        "self_reported": step.self_reported,
        **_ratio(step.ratio),
        "decision": step.mark if step.mark in ("baseline", "kept") else "rolled_back",
        "rule": step.rule,
        "bucket": bucket_of(step),
        "total_speedup": step.total_speedup,
        "roofline_fraction": step.roofline_fraction,
        "candidate_id": step.candidate_id,
        "wall_s": step.wall_s,
    }
