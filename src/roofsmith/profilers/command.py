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

_SHOWN = 5
"""Of the files that a run left, where they are too many."""


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
        for old in _files(built.library, profile.results):
            if old.parent.resolve().is_relative_to(built.library.resolve()):  # else it isn't ours
                old.unlink(missing_ok=True)
        before = _changed_ns(_files(built.library, profile.results))
        ran = run_shell(
            profile.command, directory=built.library, environment=built.environment,
            deadline_s=self._spec.benchmark_deadline_s,
            log=self._logs / built.candidate_id / "profile.log",
        )  # fmt: skip
        if not ran.passed:
            return ran.told()
        after = _changed_ns(_files(built.library, profile.results))
        written = sorted(path for path, changed in after.items() if changed != before.get(path))
        if not written:
            return f"`{profile.command}` wrote no file {profile.results}"
        texts: dict[str, Path] = {}
        for path in written:
            try:
                texts.setdefault(path.read_text(encoding="utf-8-sig", errors="replace"), path)
            except OSError as error:
                return f"{path.name}: {error}"
        if len(texts) > 1:  # by time, whoever writes last would choose
            named = [str(path.relative_to(built.library)) for path in texts.values()]
            return (
                f"one run of `{profile.command}` wrote {len(texts)} different files"
                f" {profile.results}: {', '.join(named[:_SHOWN])};"
                " let `profile.results` name one of them"
            )
        ((text, path),) = texts.items()
        try:
            return mean_kernel_time(text, self._spec)
        except (BadRowsError, ExpressionError) as error:
            return f"{path.name}: {error}"


def _files(folder: Path, pattern: str) -> list[Path]:
    return [path for path in folder.glob(pattern) if path.is_file()]


def _changed_ns(paths: Iterable[Path]) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in paths}
