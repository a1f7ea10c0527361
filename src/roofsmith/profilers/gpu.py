"""Profiles a GPU kernel with the best tool that this machine and its driver allow."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.ports import KernelRunner, Oracle
from roofsmith.profilers.attempts import Attempt, first_that_works
from roofsmith.profilers.launches import NoProfileError, ToolHungError
from roofsmith.profilers.ncu import NcuProfiler
from roofsmith.profilers.rocprof import RocprofProfiler
from roofsmith.profilers.torch_profiler import TorchProfiler

MOST_HANGS = 2
"""In a row. Each costs minutes, and a campaign profiles every round; one may be a kernel's own."""


@dataclass(frozen=True, slots=True)
class GpuProfiler:
    """ncu or rocprofv3, else torch.profiler, else nothing but notes."""

    runner: KernelRunner
    oracle: Oracle
    vendor: Literal["nvidia", "amd"]
    """The device's kind."""
    threads: int = 1
    left: Path | None = None
    """Takes what tools wrote; see `GpuTool`."""
    _hangs: list[str] = field(default_factory=list)
    """How the tool that counts hung, since it last came to an end."""

    def profile(self, built: Built, workload: Workload) -> Profile:
        """Counters of the kernel that takes most of the time of one call.

        A tool that fails, hangs or isn't there is a note in the profile, never an exception. One
        that hung `MOST_HANGS` times in a row isn't asked any more.
        """
        return first_that_works((self._counted, self._tracing), built, workload)

    def _counted(self, built: Built, workload: Workload) -> Profile:
        if len(self._hangs) >= MOST_HANGS:
            times = f"not asked again, for it hung {len(self._hangs)} times in a row"
            raise NoProfileError(f"{times}: {self._hangs[-1]}")
        try:
            found = self._counting(built, workload)
        except ToolHungError as hung:
            self._hangs.append(str(hung))
            raise
        except NoProfileError:
            self._hangs.clear()
            raise
        self._hangs.clear()
        return found

    @property
    def _counting(self) -> Attempt:
        if self.vendor == "nvidia":
            return NcuProfiler(self.runner, self.oracle, self.threads, left=self.left).attempt
        return RocprofProfiler(self.runner, self.oracle, self.threads, left=self.left).attempt

    @property
    def _tracing(self) -> Attempt:
        return TorchProfiler(self.runner, self.oracle, self.threads, left=self.left).attempt
