"""Profiles a GPU kernel with the best tool that this machine and its driver allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.ports import KernelRunner, Oracle
from roofsmith.profilers.attempts import Attempt, first_that_works
from roofsmith.profilers.ncu import NcuProfiler
from roofsmith.profilers.rocprof import RocprofProfiler
from roofsmith.profilers.torch_profiler import TorchProfiler


@dataclass(frozen=True, slots=True)
class GpuProfiler:
    """ncu or rocprofv3, else torch.profiler, else nothing but notes."""

    runner: KernelRunner
    oracle: Oracle
    vendor: Literal["nvidia", "amd"]
    """The device's kind."""
    threads: int = 1

    def profile(self, built: Built, workload: Workload) -> Profile:
        """Counters of the kernel that takes most of the time of one call.

        A tool that fails, hangs or isn't there is a note in the profile, never an exception.
        """
        return first_that_works((self._counting, self._tracing), built, workload)

    @property
    def _counting(self) -> Attempt:
        if self.vendor == "nvidia":
            return NcuProfiler(self.runner, self.oracle, self.threads).attempt
        return RocprofProfiler(self.runner, self.oracle, self.threads).attempt

    @property
    def _tracing(self) -> Attempt:
        return TorchProfiler(self.runner, self.oracle, self.threads).attempt
