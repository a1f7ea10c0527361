"""Words for command targets: who measured, what was run, and what the benchmark reported. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.domain.campaign import Campaign
from roofsmith.domain.command import CommandSpec, MetricReading
from roofsmith.domain.target import Target

LABEL = "self-reported"
"""What every number of a command target is called."""


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric of one workload, before and after."""

    workload: str
    metric: str
    before: float | None
    after: float

    @property
    def ratio(self) -> float | None:
        """After over before."""
        return self.after / self.before if self.before else None


def notice(target: Target) -> str | None:
    """Who measured, in a sentence or two; None where the judge did it itself."""
    spec = target.command
    if spec is None:
        return None
    what = "time" if spec.gives_times else "figure"
    said = (
        f"{LABEL}: every {what} here is what the repository's own benchmark ({spec.benchmark})"
        " printed, beside candidate code; nobody else measured it"
    )
    if spec.profile is not None:
        said += (
            f". What was kept gained by its profiler ({spec.profile.command}) as well, and totals"
            " are products of the profiler's ratios"
        )
    return said if spec.gives_times else f"{said}. {spec.metric} is no time: there is no roofline"


def task_lines(target: Target) -> tuple[str, ...]:
    spec = target.command
    if spec is None:
        return ()
    gate = f" and {spec.gate} in every row" if spec.gate else ""
    test = f"{spec.test} succeeds" if spec.test else "the benchmark succeeds"
    lines = [
        f"repository: {spec.repo} at commit {spec.commit}",
        _where(spec),
        f"editable: {', '.join(spec.editable)}",
        f"frozen: everything else that git tracks, SHA-256 {spec.frozen[:16]}",
        f"build: {spec.build or 'nothing'}",
        f"benchmark: {spec.benchmark}",
        f"correct means: {test}{gate}",
        f"metric: {metric_words(spec)}; geometric mean over rows",
    ]
    if spec.volatile:
        lines.insert(4, f"not frozen, because the commands rewrite it: {', '.join(spec.volatile)}")
    if spec.profile is not None:
        lines.append(f"profiler, which has the last word: {spec.profile.command}")
    return tuple(lines)


def metric_words(spec: CommandSpec) -> str:
    """`us (us), lower is better`."""
    unit = f" ({spec.unit})" if spec.unit else ""
    return f"{spec.metric}{unit}, {spec.direction} is better"


def _where(spec: CommandSpec) -> str:
    if not spec.workspace:
        return "execution mode: repo, always in the whole repository"
    return (
        f"execution mode: workspace of {', '.join((*spec.workspace, *spec.editable))}"
        f" ({len(spec.extracted)} files: {', '.join(spec.extracted)}); what is faster there is"
        " judged again in the whole repository"
    )


def metric_rows(readings: tuple[MetricReading, ...]) -> tuple[MetricRow, ...]:
    """What one judgement's benchmark runs reported of incumbent and candidate."""
    return tuple(MetricRow(r.workload, r.metric, r.before, r.value) for r in readings)


def overall_metric_rows(campaign: Campaign) -> tuple[MetricRow, ...]:
    """From the baseline to the kernel that holds, as far as anybody reported."""
    if campaign.baseline is None:
        return ()
    before = {(r.workload, r.metric): r.value for r in campaign.baseline.metrics}
    return tuple(
        MetricRow(r.workload, r.metric, before.get((r.workload, r.metric)), r.value)
        for r in campaign.held_metrics
    )
