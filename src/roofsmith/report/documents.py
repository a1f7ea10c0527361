"""The manifest of a campaign directory. Pure."""

from __future__ import annotations

import yaml

from roofsmith.domain.campaign import Campaign
from roofsmith.domain.command import CommandSpec
from roofsmith.report import format as fmt
from roofsmith.report.summary import Summary


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
        "config_classes": {c.name: list(c.workloads) for c in campaign.classes},
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


def _performance_target(campaign: Campaign) -> str:
    target = campaign.started.target
    goal = target.goal
    goals = [f"{fmt.percent(goal.roofline_fraction)} of the roofline"]
    if goal.speedup is not None:
        goals.append(f"{fmt.speedup(goal.speedup)} over the baseline")
    if goal.metric is not None and target.command is not None:
        goals.append(metric_goal(target.command, goal.metric))
    return ", or ".join(goals)


def metric_goal(spec: CommandSpec, goal: float) -> str:
    """`fwd_ms <= 1.2 ms`."""
    sign = "<=" if spec.direction == "lower" else ">="
    return f"{spec.metric} {sign} {goal:g}{f' {spec.unit}' if spec.unit else ''}"
