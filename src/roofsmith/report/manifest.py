"""The manifest of a campaign directory. Pure."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import yaml

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.experiments import backend_of
from roofsmith.analysis.fractions import rate_goals
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.command import CommandSpec, EditableShare
from roofsmith.domain.examination import GROUPS, Check, Examination
from roofsmith.domain.standing import branch_of, limits_in_force
from roofsmith.domain.target import Definition, Target
from roofsmith.report.reported import metric_words
from roofsmith.report.summary import Summary
from roofsmith.report.templating import markdown_environment

QUICK_SCRIPT = "quick_test_bench.py"
_QUICK = '''\
"""Test and benchmark of a change on a few workloads, against the kernel that holds.

Usage: python3 quick_test_bench.py [FILE or FOLDER] [--json]; the worktree unless one is named. It
keeps nothing: `roofsmith tell` has a change judged on all workloads.
"""

import pathlib
import subprocess
import sys

CAMPAIGN = pathlib.Path(__file__).resolve().parent
CHANGED = @CHANGED@
SHAPES = [
@SHAPES@]

options = [word for word in sys.argv[1:] if word.startswith("-")]
change = [word for word in sys.argv[1:] if word not in options] or [CAMPAIGN / CHANGED]
print("looks at", "; ".join(SHAPES), file=sys.stderr)
command = ["roofsmith", "try", CAMPAIGN, *change, *options]
sys.exit(subprocess.call([str(word) for word in command]))
'''


def manifest(campaign: Campaign, summary: Summary) -> str:
    """`manifest.yaml`: what the campaign is about, by which commands, rules and limits it runs.

    All of it is there before round 1, but for what follows from the baseline: whether there are
    commits, config classes and the workloads that stand for all. A limit is the one in force.
    """
    started, limits = campaign.started, limits_in_force(campaign)
    target, device = started.target, started.environment.device
    asked = target.definition or Definition()
    sheet, backend = started.facts.datasheet, backend_of(target, target.baseline).upper()
    content = {
        "campaign": started.campaign,
        "target_op": asked.target_op or target.family or target.name,
        "target_name": target.name,
        "target_digest": target.digest,
        "target_backend": asked.target_backend or backend,
        "target_lang": backend,
        "target_device": device.name,
        "target_gpu": device.arch if device.kind != "cpu" else None,
        "platform": device.name if sheet is None else sheet.product,
        "arch": (None if sheet is None else sheet.arch) or device.arch,
        "target_shapes": [workload.label for workload in target.workloads],
        "representative_shapes": _representative(campaign),
        "config_classes": {c.name: list(c.workloads) for c in campaign.classes},
        "performance_target": asked.performance_target or _performance_target(campaign),
        **(_of_kernel(target) if target.command is None else _of_command(target, target.command)),
        "execution_reason": asked.execution_reason,
        "project_skill": asked.project_skill,
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


def quick_script(campaign: Campaign) -> str:
    """A script that looks at the worktree, or at what it is given, as `roofsmith try` does: test or
    check, and a few pairs on the workloads that stand for all."""
    shown = _representative(campaign)
    labels = (
        shown if isinstance(shown, list) else [w.label for w in campaign.started.target.workloads]
    )
    target = campaign.started.target
    place = "worktree" if target.command is not None else f"worktree/{target.kernel.path}"
    rows = "".join(f"    {label!r},\n" for label in labels)
    return _QUICK.replace("@SHAPES@", rows).replace("@CHANGED@", repr(place))


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
        "quick_command": f"python3 {QUICK_SCRIPT}",
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
        "quick_rows_command": spec.quick,
        "test_command": spec.test,
        "benchmark_command": spec.benchmark,
        "quick_command": f"python3 {QUICK_SCRIPT}",
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


def _performance_target(campaign: Campaign) -> str | None:
    target = campaign.started.target
    goal = target.goal
    goals = [f">= {wanted:g} {unit}" for _, wanted, unit in rate_goals(goal)]
    if goal.roofline_fraction is not None:
        goals.insert(0, f"{fmt.percent(goal.roofline_fraction)} of the roofline")
    if goal.speedup is not None:
        goals.append(f"{fmt.speedup(goal.speedup)} over the baseline")
    if goal.metric is not None and target.command is not None:
        goals.append(metric_goal(target.command, goal.metric))
    return ", or ".join(goals) or None


def env_check(found: Examination, recorded: str | None = None) -> str:
    """What needs attention first, then every check by area."""
    areas = [(area, list(checks)) for area, checks in groupby(found.checks, lambda c: c.area)]
    template = markdown_environment().get_template("env_check.md.j2")
    return template.render(found=found, areas=areas, required_by=_required_by, recorded=recorded)


def error_report(message: str, hint: str | None, command: str, found: Examination | None) -> str:
    """Why a campaign didn't begin, what cures it, and the command to run again."""
    lines = ["# The campaign didn't begin", "", f"**What**: {message}", ""]
    lines += [f"**Fix**: {hint}", ""] if hint else []
    missing = [] if found is None else [c for c in found.problems if c.level == "missing"]
    lines += [f"- {c.name}: {c.detail}; fix: {c.fix or 'not known'}" for c in missing]
    return "\n".join([*lines, "", f"**Again**: `{command}`", "", "All checks: env_check.md", ""])


def _required_by(check: Check) -> str:
    if not check.required:
        return ""
    names = [name for name, group in GROUPS.items() if set(group) & set(check.languages)]
    return "all" if len(names) == len(GROUPS) else ", ".join(names)
