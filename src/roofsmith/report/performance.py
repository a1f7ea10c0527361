"""`performance.md`: the baseline and what was kept, a row each, and why it ended. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import geometric_mean

from roofsmith.analysis import kernel_table
from roofsmith.analysis.figures import percent
from roofsmith.domain.campaign import Campaign, Kept
from roofsmith.domain.command import ProfileCommand
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.measure import TIME
from roofsmith.domain.profile import Profile
from roofsmith.domain.target import Target
from roofsmith.report.ends import profiled_s
from roofsmith.report.summary import SummaryStep
from roofsmith.report.templating import Raw, render_markdown

_NEARLY_ALL = 0.99
"""Beyond, a share bounds nothing."""


@dataclass(frozen=True, slots=True)
class PerformanceRow:
    """One kernel that held: the baseline, or a kept improvement."""

    step: SummaryStep
    target: str
    """The config class that it was for, or which dimensions run which kernel."""
    kernel: str
    """As the profiler names it; without one, the function or the repository's file."""
    time_s: float | None
    """Judged: geometric mean over workloads."""
    profiled_s: float | None
    """By the profiler, on the workload that it looked at; of a repository, in a whole run."""
    delta: float | None
    """Of what was judged, against the kernel before it: -0.05 is 5% less; of the kernels' time
    where the target's own profiler has the last word. None for the baseline."""


def performance_rows(
    campaign: Campaign, steps: tuple[SummaryStep, ...]
) -> tuple[PerformanceRow, ...]:
    """The baseline's and every kept round's."""
    dispatches = {
        round_.round: round_.decision.dispatch
        for round_ in campaign.rounds
        if isinstance(round_.decision, Kept)
    }
    return tuple(
        PerformanceRow(
            step=step,
            target=dispatch.sentence if (dispatch := dispatches.get(step.number)) else _aim(step),
            kernel=_kernel(step) or _named(campaign.started.target, step),
            time_s=geometric_mean(step.times_s.values()) if step.times_s else None,
            profiled_s=profiled_s(step),
            delta=_delta(step),
        )
        for step in steps
        if step.mark in ("baseline", "kept")
    )


def profiled_runs(campaign: Campaign) -> list[tuple[int, Profile]]:
    """Round and profile of the baseline's run, and of the last that was kept and profiled since,
    where the kernels of a repository's run were seen."""
    first = [(1, campaign.baseline.profile)] if campaign.baseline is not None else []
    later = [(round_.round, round_.profile) for round_ in campaign.kept if round_.profile]
    return [(number, profile) for number, profile in (*first, *later[-1:]) if profile.kernels]


def kernels_block(profile: Profile | None, baseline: Candidate | None = None) -> Raw:
    """Every kernel of a repository's run with what it takes, hottest first; empty without any.

    Args:
        profile: of a run.
        baseline: whose files may be edited: what they can gain at most is said.
    """
    if profile is None or not profile.kernels:
        return Raw("")
    sources = [] if baseline is None else [source.text for source in baseline.sources]
    part = kernel_table.editable_part(profile.kernels, sources) if sources else None
    rows = [(one.name, kernel_table.cells(one)) for one in profile.kernels]
    text = render_markdown(
        "kernels.md", headers=kernel_table.HEADERS, rows=rows, sentence=_bounded(part)
    )
    return Raw(text.rstrip("\n"))


def _bounded(part: float | None) -> str:
    if not part:
        return ""
    most = (
        "" if part > _NEARLY_ALL else f", so that no change gains more than {1 / (1 - part):.3g}x"
    )
    return f"Kernels that editable files define take {percent(part)} of GPU time{most}"


def judged_words(target: Target) -> str:
    """Whose delta a row shows."""
    if _profile_of(target) is not None:
        return "the kernels' time by the target's profiler"
    return "the judged time" if target.measure.is_time else target.measure.name


def pairing_words(target: Target) -> str:
    """Why a row's delta isn't the quotient of times; empty where a profiler has the last word."""
    if _profile_of(target) is not None:
        return ""
    return (
        "Both kernels ran in turns for it; what two rows show was measured at different times, and"
        " needn't divide to the same."
    )


def profiled_words(target: Target) -> str:
    profile = _profile_of(target)
    if profile is None:
        return "of the workload that it looked at"
    return "of all kernels of a step" if profile.steps else "of a launch, the mean of a whole run"


def benchmark_command(campaign: Campaign) -> str:
    """What every row was measured with."""
    command = campaign.started.target.command
    if command is not None:
        return command.benchmark
    return "roofsmith judge: incumbent and candidate in turns, winners measured again"


def _profile_of(target: Target) -> ProfileCommand | None:
    return target.command.profile if target.command is not None else None


def _delta(step: SummaryStep) -> float | None:
    if step.counting_ratio is None:
        return None
    measure = TIME if step.kernel_ratio is not None else step.measure
    return measure.change(step.counting_ratio.value)


def _aim(step: SummaryStep) -> str:
    return step.hypothesis.target_class if step.hypothesis is not None else "global"


def _named(target: Target, step: SummaryStep) -> str:
    """What stands for the kernel where no profiler named it: of a repository, what changed."""
    if target.command is None:
        return target.entry
    return ", ".join(change.path for change in step.diff) or target.kernel.path


def _kernel(step: SummaryStep) -> str | None:
    return step.profile_after.kernel if step.profile_after is not None else None
