"""The data files of a campaign directory: `manifest.yaml` and `memory/v<N>.json`. Pure."""

from __future__ import annotations

import json
from typing import Any

import yaml

from roofsmith.domain.campaign import Campaign
from roofsmith.domain.outcome import Passed
from roofsmith.report import format as fmt
from roofsmith.report.pitfalls import pitfalls
from roofsmith.report.summary import Ratio, Step, Summary


def manifest(campaign: Campaign, summary: Summary) -> str:
    """`manifest.yaml`: what the campaign is about and by which rules it runs."""
    started = campaign.started
    target, device = started.target, started.environment.device
    content = {
        "campaign": started.campaign,
        "target_op": target.family or target.name,
        "target_name": target.name,
        "target_digest": target.digest,
        "target_backend": target.language.upper(),
        "target_lang": target.language.upper(),
        "target_device": device.name,
        "target_gpu": device.name if device.kind != "cpu" else None,
        "target_shapes": [workload.label for workload in target.workloads],
        "config_classes": {c.name: list(c.workloads) for c in started.classes},
        "execution_mode": "workspace",
        "performance_target": _performance_target(campaign),
        "primary_metric": "geometric mean over workloads of the paired time ratio",
        "kernel_source": target.kernel.path,
        "reference_source": target.reference.path if target.reference else None,
        "threads": summary.threads,
        "proposers": list(started.proposers),
        "noise_band": target.keep.noise_band,
        "error_rate": target.keep.error_rate,
        "veto_slowdown": target.keep.veto_slowdown,
        "judge_budget_s": target.keep.judge_budget_s,
        "max_iterations": target.stop.max_iterations,
        "max_consecutive_regressions": target.stop.max_consecutive_regressions,
        "budget_s": target.stop.budget_s,
        "git_branch": f"optimize/{started.campaign}",
        "resume_command": "roofsmith resume .",
        "verify_command": "roofsmith verify .",
        "environment_fingerprint": started.environment.fingerprint,
        "created": fmt.minute(started.at),
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)


def memory(campaign: Campaign, step: Step) -> str:
    """`memory/v<N-1>.json`: what later campaigns may learn from a round, unless it is masked."""
    started = campaign.started
    content = {
        "version": step.number - 1,
        "round": step.number,
        "masked": False,
        "campaign": started.campaign,
        "target": started.target.name,
        "target_digest": started.target.digest,
        "family": started.target.family,
        "device": started.environment.device.name,
        "environment_fingerprint": started.environment.fingerprint,
        "candidate_id": step.candidate_id,
        "incumbent_id": step.incumbent_id,
        "hypothesis": step.hypothesis.model_dump(mode="json") if step.hypothesis else None,
        "outcome": step.outcome.model_dump(mode="json"),
        "verdict": step.verdict,
        **_ratio(step.ratio),
        "decision": step.mark if step.mark in ("baseline", "kept") else "rolled_back",
        "rule": step.rule,
        "total_speedup": step.total_speedup,
        "roofline_fraction": step.roofline_fraction,
        "bottleneck_before": _dumped(step.bottleneck_before),
        "bottleneck_after": _dumped(step.bottleneck_after),
        "times_s": step.times_s,
        "pitfalls_and_fixes": [*_pitfalls(campaign, step)],
        "commit": step.commit,
        "wall_s": step.wall_s,
        "at": step.at,
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _performance_target(campaign: Campaign) -> str:
    goal = campaign.started.target.goal
    roofline = f"{fmt.percent(goal.roofline_fraction)} of the roofline"
    if goal.speedup is None:
        return roofline
    return f"{roofline}, or {fmt.speedup(goal.speedup)} over the baseline"


def _ratio(ratio: Ratio | None) -> dict[str, Any]:
    if ratio is None:
        return {"speedup": None, "ci": None}
    return {"speedup": ratio.value, "ci": list(ratio.ci)}


def _dumped(value: Any) -> Any:
    return value.model_dump(mode="json") if value is not None else None


def _pitfalls(campaign: Campaign, step: Step) -> list[dict[str, str]]:
    """What went wrong, and what was done about it; the baseline also names missing facts."""
    found: list[dict[str, str]] = []
    if step.number == 1:
        found += [{"pitfall": missing.what, "fix": missing.fix} for missing in pitfalls(campaign)]
    if not isinstance(step.outcome, Passed):
        what = f"{step.status} ({step.outcome.reason}): {fmt.visible(step.outcome.detail)}"
        found.append({"pitfall": what, "fix": "rolled back"})
    elif step.mark == "rejected":
        found.append({"pitfall": f"{step.status}: {step.rule}", "fix": "rolled back"})
    return found
