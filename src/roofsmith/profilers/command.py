"""A command target's own profiler: the mean time of its kernels, from the CSV that it writes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from roofsmith.analysis.benchmark_rows import BadRowsError, mean_kernel_time
from roofsmith.analysis.expressions import ExpressionError
from roofsmith.domain.command import CommandSpec
from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import KERNEL_TIME, Counter, Profile
from roofsmith.domain.workload import Workload
from roofsmith.shell import run_shell


class CommandProfiler:
    """Ports `Profiler` and `KernelTimer`, by the profile command of one target.

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
            notes=(f"mean kernel time over the whole benchmark; kernels: {', '.join(kernels)}",),
        )

    def kernel_time(self, built: Built) -> float | str:
        """Mean seconds of the kernels that count in one run; or why there is no such time."""
        found = self._run(built)
        return found if isinstance(found, str) else found[0]

    def _run(self, built: Built) -> tuple[float, tuple[str, ...]] | str:
        profile = self._spec.profile
        assert profile is not None, "only asked where there is a profiler"
        for old in built.library.glob(profile.results):
            if old.parent.resolve().is_relative_to(built.library.resolve()):  # else it isn't ours
                old.unlink(missing_ok=True)
        before = _changed_ns(built.library.glob(profile.results))
        ran = run_shell(
            profile.command, directory=built.library, environment=built.environment,
            deadline_s=self._spec.benchmark_deadline_s,
            log=self._logs / built.candidate_id / "profile.log",
        )  # fmt: skip
        if not ran.passed:
            return ran.told()
        after = _changed_ns(built.library.glob(profile.results))
        written = sorted((p for p in after if after[p] != before.get(p)), key=after.__getitem__)
        if not written:
            return f"`{profile.command}` wrote no file {profile.results}"
        try:
            text = written[-1].read_text(encoding="utf-8-sig", errors="replace")
            return mean_kernel_time(text, self._spec)
        except (BadRowsError, ExpressionError, OSError) as error:
            return f"{written[-1].name}: {error}"


def _changed_ns(paths: Iterable[Path]) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in paths}
