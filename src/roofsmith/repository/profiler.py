"""A command target's own profiler: the mean time of its kernels, from the CSV that it writes."""

from __future__ import annotations

from pathlib import Path

from roofsmith.domain.command import CommandSpec
from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import KERNEL_TIME, Counter, Profile
from roofsmith.domain.workload import Workload
from roofsmith.repository.expressions import ExpressionError
from roofsmith.repository.printed_table import csv_of_file
from roofsmith.repository.rows import BadRowsError, mean_kernel_time
from roofsmith.result_files import NoResultError, ResultFiles
from roofsmith.shell import run_shell


class CommandProfiler:
    """Port `Profiler`, by the profile command of one target.

    A run covers every row of the benchmark, so its one number is the same for each workload.

    Args:
        spec: the target's.
        logs: a folder in it for each candidate.
    """

    def __init__(self, spec: CommandSpec, logs: Path) -> None:
        self._spec = spec
        self._logs = logs

    def profile(self, built: Built, workload: Workload) -> Profile:
        """One run under the profiler; without a profile command, nothing is seen."""
        if self._spec.profile is None:
            note = "no profiler: the target names no profile command (`command.profile`)"
            return Profile(tool="none", workload=workload.label, notes=(note,))
        found = self._run(built)
        if isinstance(found, str):
            return Profile(tool="none", workload=workload.label, notes=(found,))
        time_s, kernels = found
        return Profile(
            tool="command",
            workload=workload.label,
            kernel=kernels[0] if len(kernels) == 1 else None,
            counters=(Counter(name=KERNEL_TIME, value=time_s, unit="s"),),
            notes=(f"{self._what} over the whole benchmark; kernels: {', '.join(kernels)}",),
        )

    @property
    def _what(self) -> str:
        """What the one counter is of."""
        profile = self._spec.profile
        stepwise = profile is not None and profile.steps is not None
        return "kernel time per step" if stepwise else "mean kernel time"

    def kernel_time(self, built: Built) -> float | str:
        """Seconds of the kernels that count, per launch or step; or why there is no such time."""
        found = self._run(built)
        return found if isinstance(found, str) else found[0]

    def _run(self, built: Built) -> tuple[float, tuple[str, ...]] | str:
        profile = self._spec.profile
        assert profile is not None, "only asked where there is a profiler"
        files = ResultFiles(built.library, profile.results, "profile.results")
        ran = run_shell(
            profile.command, directory=built.library, environment=built.environment,
            deadline_s=self._spec.benchmark_deadline_s,
            log=self._logs / built.candidate_id / "profile.log",
        )  # fmt: skip
        if not ran.passed:
            return ran.told()
        try:
            return mean_kernel_time(csv_of_file(files.text(), (profile.name,)), self._spec)
        except (NoResultError, BadRowsError, ExpressionError) as error:
            return f"`{profile.command}` ended well, but its results can't be used: {error}"
