"""The manifest of a campaign directory. Pure."""

from __future__ import annotations

from typing import Any

import yaml

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.experiments import backend_of
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.command import CommandSpec, EditableShare
from roofsmith.domain.standing import branch_of, limits_in_force
from roofsmith.domain.target import Target
from roofsmith.report.reported import metric_words
from roofsmith.report.summary import Summary


def manifest(campaign: Campaign, summary: Summary) -> str:
    """`manifest.yaml`: what the campaign is about, by which commands, rules and limits it runs.

    All of it is there before round 1, but for what follows from the baseline: whether there are
    commits, config classes and the workloads that stand for all. A limit is the one in force.
    """
    started, limits = campaign.started, limits_in_force(campaign)
    target, device = started.target, started.environment.device
    sheet, backend = started.facts.datasheet, backend_of(target, target.baseline).upper()
    content = {
        "campaign": started.campaign,
        "target_op": target.family or target.name,
        "target_name": target.name,
        "target_digest": target.digest,
        "target_backend": backend,
        "target_lang": backend,
        "target_device": device.name,
        "target_gpu": device.name if device.kind != "cpu" else None,
        "platform": device.name if sheet is None else sheet.product,
        "arch": (None if sheet is None else sheet.arch) or device.arch,
        "target_shapes": [workload.label for workload in target.workloads],
        "representative_shapes": _representative(campaign),
        "config_classes": {c.name: list(c.workloads) for c in campaign.classes},
        "performance_target": _performance_target(campaign),
        **(_of_kernel(target) if target.command is None else _of_command(target, target.command)),
        **_share(started.editable),
        "threads": summary.threads,
        "proposers": list(started.proposers),
        "noise_band": target.keep.noise_band,
        "error_rate": target.keep.error_rate,
        "veto_slowdown": target.keep.veto_slowdown,
        "judge_budget_s": target.keep.judge_budget_s,
        "max_iterations": limits.max_iterations,
        "max_consecutive_regressions": limits.max_consecutive_regressions,
        "max_repairs": limits.max_repairs,
        "budget_s": limits.budget_s,
        "max_tokens": limits.max_tokens,
        **({} if limits.max_cost_usd is None else {"max_cost_usd": limits.max_cost_usd}),
        "git_commit": None if campaign.baseline is None else campaign.baseline.commit is not None,
        "git_branch": branch_of(campaign),
        "resume_command": "roofsmith resume .",
        "verify_command": "roofsmith verify .",
        "environment_fingerprint": started.environment.fingerprint,
        "rules": started.rules,
        "created": fmt.minute(started.at),
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)


def _share(found: EditableShare | None) -> dict[str, Any]:
    """How much of the benchmark may be edited, and what a change can gain at most by it."""
    if found is None:
        return {}
    return {
        "editable_share": found.part,
        "editable_share_samples": found.samples,
        "editable_share_bound": found.most_speedup,
        "editable_share_unknown": found.unknown or None,
    }


def metric_goal(spec: CommandSpec, goal: float) -> str:
    """`fwd_ms <= 1.2 ms`."""
    sign = "<=" if spec.direction == "lower" else ">="
    return f"{spec.metric} {sign} {goal:g}{f' {spec.unit}' if spec.unit else ''}"


def _of_kernel(target: Target) -> dict[str, Any]:
    """A kernel is taken out of wherever it lies, and judged alone."""
    return {
        "execution_mode": "workspace",
        "self_reported": False,
        "primary_metric": "geometric mean over workloads of the paired time ratio",
        "kernel_source": target.kernel.path,
        "editable": [target.kernel.path],
        "reference_source": target.truth.path,
        "build_command": target.build.command_line(target.language),
        "test_command": "roofsmith kernel check target.yaml",
        "benchmark_command": "roofsmith kernel bench target.yaml",
        "quick_command": None,
        "profile_command": "roofsmith kernel profile target.yaml",
        "gate": "every output within its error budget, on every workload",
    }


def _of_command(target: Target, spec: CommandSpec) -> dict[str, Any]:
    by_profiler = spec.profile is not None
    decides = "mean kernel time by profile_command, after " if by_profiler else ""
    return {
        "execution_mode": "workspace" if spec.workspace else "repo",
        "self_reported": True,
        "primary_metric": f"{decides}{metric_words(spec)}; geometric mean over rows",
        "further_metrics": dict(spec.metrics),
        "kernel_source": target.kernel.path,
        "editable": list(spec.editable),
        "repository": spec.repo,
        "repository_commit": spec.commit,
        "frozen_sha256": spec.frozen,
        "volatile": list(spec.volatile),
        "workspace": list(spec.workspace),
        "extracted_files": list(spec.extracted),
        "carry": list(spec.carry),
        "environment": dict(spec.environment),
        "build_command": spec.build,
        "test_command": spec.test,
        "benchmark_command": spec.benchmark,
        "quick_command": None,
        "profile_command": spec.profile.command if spec.profile is not None else None,
        "dispatch_command": spec.dispatch,
        "transfer": spec.transfer,
        "results": spec.results,
        "gate": spec.gate,
        "metric": spec.metric,
        "direction": spec.direction,
        "unit": spec.unit,
        "row_columns": list(spec.keys),
        "class_columns": list(spec.classes),
    }


def _representative(campaign: Campaign) -> list[str] | str | None:
    """What quick judgements look at; not known before the baseline."""
    if campaign.baseline is None:
        return None
    return list(campaign.baseline.representative) or "all"


def _performance_target(campaign: Campaign) -> str:
    target = campaign.started.target
    goal = target.goal
    goals = [f"{fmt.percent(goal.roofline_fraction)} of the roofline"]
    if goal.speedup is not None:
        goals.append(f"{fmt.speedup(goal.speedup)} over the baseline")
    if goal.metric is not None and target.command is not None:
        goals.append(metric_goal(target.command, goal.metric))
    return ", or ".join(goals)
