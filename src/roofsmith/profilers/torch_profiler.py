"""torch.profiler around a worker: times and sizes of kernels, where counters are forbidden."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.ports import KernelDiedError
from roofsmith.profilers import torch_profiler_launcher
from roofsmith.profilers.attempts import SEED, GpuTool
from roofsmith.profilers.launches import NoProfileError, profile_of, since
from roofsmith.profilers.torch_profiler_trace import parse_chrome_trace
from roofsmith.result_files import leave
from roofsmith.scratch import scratch_prefix

CALLS = 5
"""That are traced after one that compiles, tunes and fills caches."""


def find_torch() -> str | None:
    """The Python that runs this, if it has torch; nothing is imported."""
    return sys.executable if importlib.util.find_spec("torch") is not None else None


def launcher(python: str, trace: Path) -> tuple[str, ...]:
    """What to start a worker under."""
    return (python, torch_profiler_launcher.__file__, str(trace))


@dataclass(frozen=True, slots=True)
class TorchProfiler(GpuTool):
    """Port `Profiler` over torch.profiler: kernels, times, launch sizes and registers."""

    find_torch: Callable[[], str | None] = field(default=find_torch)

    def attempt(self, built: Built, workload: Workload) -> Profile:
        python = self.find_torch()
        if python is None:
            raise NoProfileError("torch is not installed, so torch.profiler can't stand in")
        arguments = self.oracle.inputs(workload, SEED)
        with tempfile.TemporaryDirectory(prefix=scratch_prefix("torch")) as folder:
            trace = Path(folder) / "trace.json"
            try:
                with self.started(built, arguments, launcher(python, trace)) as session:
                    session.call(1)
                    begin_ns = time.time_ns()
                    session.call(CALLS)
            except KernelDiedError as died:
                raise NoProfileError(f"no profile from torch.profiler: {died}") from died
            try:
                text = trace.read_text(encoding="utf-8", errors="replace")
                leave(self.left, built.candidate_id, "profile/torch_trace.json", trace)
            except OSError as error:
                raise NoProfileError(f"torch.profiler wrote no trace ({error.strerror})") from error
        launches, calls, notes = since(parse_chrome_trace(text), begin_ns, CALLS)
        return profile_of(
            "torch",
            workload.label,
            launches,
            calls=calls,
            notes=(f"torch.profiler, {calls} calls: times and sizes, no hardware counters", *notes),
        )
