"""A command target's own profiler: the mean time of its kernels, from the CSV that it writes.

Where a profile is looked at, everything that it and the commands beside it left is read: every
kernel of the run with what it takes. That decides nothing, and a candidate may have written it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from roofsmith.analysis.kernel_table import TABLED
from roofsmith.domain.command import CommandSpec, ProfileCommand
from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import KERNEL_TIME, Counter, Profile, ProfiledKernel
from roofsmith.domain.program import TracedProgram
from roofsmith.domain.workload import Workload
from roofsmith.profilers.left_behind import new_files, read_left, times
from roofsmith.profilers.program_files import NotATraceError, read_program
from roofsmith.repository.expressions import ExpressionError
from roofsmith.repository.printed_table import csv_of_file
from roofsmith.repository.rows import BadRowsError, mean_kernel_time
from roofsmith.result_files import NoResultError, ResultFiles, leave
from roofsmith.shell import ShellRan, run_shell

_TOOLS: Mapping[str, Literal["ncu", "rocprofv3", "torch", "nsys"]] = {
    "ncu": "ncu", "rocprofv3": "rocprofv3", "torch.profiler": "torch", "nsys": "nsys",
}  # fmt: skip
_KEPT_KERNELS = 20
"""Of a run's, in a record."""


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
        before = times(built.library)
        found = self._run(built)
        if isinstance(found, str):
            return Profile(tool="none", workload=workload.label, notes=(found,))
        time_s, kernels = found
        profile = Profile(
            tool="command",
            workload=workload.label,
            kernel=kernels[0] if len(kernels) == 1 else None,
            counters=(Counter(name=KERNEL_TIME, value=time_s, unit="s"),),
            notes=(f"{self._what} over the whole benchmark; kernels: {', '.join(kernels)}",),
        )
        failed = tuple(self._further(built))
        try:
            files, logs = new_files(built.library, before), self._logs / built.candidate_id
            for file in files:
                name = f"profile/{file.relative_to(built.library).as_posix()}"
                leave(self._logs, built.candidate_id, name, file)
            program = read_left(files, built.library, logs)
        except NotATraceError as error:
            return profile.model_copy(
                update={"notes": (*profile.notes, *failed, f"kernels: {error.message}")}
            )
        return self._with_kernels(profile, program, failed)

    def _with_kernels(
        self, profile: Profile, program: TracedProgram, notes: tuple[str, ...]
    ) -> Profile:
        """A profile with every kernel of the run, and the counters of the hottest that counts."""
        spec = self._spec
        assert spec.profile is not None, "only asked where there is a profiler"
        own = [one for one in program.kernels if not one.is_copy] or [*program.kernels]
        counting = [one for one in own if re.search(spec.profile.kernel, one.name)] or own
        hottest = counting[0]
        return profile.model_copy(
            update={
                "tool": _TOOLS.get(program.tool, "command") if spec.device == "gpu" else "command",
                "kernel": hottest.name,
                "counters": (*profile.counters, *hottest.counters),
                "hotspots": hottest.hotspots,
                "kernels": tuple(_tabled(one) for one in program.kernels[:_KEPT_KERNELS]),
                "notes": (*profile.notes, *notes),
            }
        )

    def _further(self, built: Built) -> Iterator[str]:
        """Run the commands that count and trace; what fails is a note."""
        profile = self._spec.profile
        assert profile is not None, "only asked where there is a profiler"
        for key, command in (("counters", profile.counters), ("trace", profile.trace)):
            if command is not None and not (ran := self._shell(built, command, key)).passed:
                yield f"profile.{key}: {ran.told()}"

    @property
    def _what(self) -> str:
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
        ran = self._shell(built, profile.command, "profile")
        if not ran.passed:
            return ran.told()
        try:
            text = csv_of_file(files.text(), (profile.name,))
            try:
                return mean_kernel_time(text, self._spec)
            except (BadRowsError, ExpressionError):
                if not _says_no_columns(profile):
                    raise
                if (found := _time_of_program(files.path(), profile)) is None:
                    raise
                return found
        except (NoResultError, BadRowsError, ExpressionError) as error:
            return f"`{profile.command}` ended well, but its results can't be used: {error}"

    def _shell(self, built: Built, command: str, log: str) -> ShellRan:
        return run_shell(
            command, directory=built.library, environment=built.environment,
            deadline_s=self._spec.benchmark_deadline_s,
            log=self._logs / built.candidate_id / f"{log}.log",
        )  # fmt: skip


def _says_no_columns(profile: ProfileCommand) -> bool:
    """Whether the file's columns are left to whoever reads it."""
    own = profile.model_dump(include={"name", "time", "calls", "unit"})
    return all(own[key] == ProfileCommand.model_fields[key].default for key in own)


def _time_of_program(path: Path, profile: ProfileCommand) -> tuple[float, tuple[str, ...]] | None:
    """As `mean_kernel_time`, of a file whose columns another tool has named.

    ncu's raw page is one: units in a line of their own, commas between thousands.
    """
    try:
        kernels = read_program(path).kernels
    except NotATraceError:
        return None
    counting = [one for one in kernels if re.search(profile.kernel, one.name) and not one.is_copy]
    parts = profile.steps or sum(one.launches for one in counting)
    total_s = sum(one.time_s for one in counting)
    if not parts or not total_s > 0:
        return None
    return total_s / parts, tuple(one.name for one in counting)


def _tabled(kernel: ProfiledKernel) -> ProfiledKernel:
    """A kernel with what a table shows of it: a record of them all would be long."""
    counters = tuple(one for one in kernel.counters if one.name in TABLED)
    return kernel.model_copy(update={"counters": counters, "hotspots": kernel.hotspots[:3]})
