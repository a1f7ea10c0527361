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
from roofsmith.ports import KernelDiedError, KernelRunner, Oracle
from roofsmith.profilers import torch_profiler_launcher
from roofsmith.profilers.attempts import SEED, Attempt, first_that_works
from roofsmith.profilers.launches import NoProfileError, profile_of, since
from roofsmith.profilers.torch_profiler_trace import parse_chrome_trace
from roofsmith.scratch import scratch_prefix

CALLS = 5
"""That are traced after one that compiles, tunes and fills caches."""
CALL_DEADLINE_S = 120.0


def find_torch() -> str | None:
    """The Python that runs this, if it has torch; nothing is imported."""
    return sys.executable if importlib.util.find_spec("torch") is not None else None


def launcher(python: str, trace: Path) -> tuple[str, ...]:
    """What to start a worker under."""
    return (python, torch_profiler_launcher.__file__, str(trace))


@dataclass(frozen=True, slots=True)
class TorchProfiler:
    """Port `Profiler` over torch.profiler: kernels, times, launch sizes and registers."""

    runner: KernelRunner
    oracle: Oracle
    threads: int = 1
    find_torch: Callable[[], str | None] = field(default=find_torch)
    call_deadline_s: float = CALL_DEADLINE_S

    def profile(self, built: Built, workload: Workload) -> Profile:
        """Kernels of one call, without hardware counters.

        A tool that fails, hangs or isn't there is a note in the profile, never an exception.
        """
        return first_that_works((self.attempt,), built, workload)

    @property
    def attempt(self) -> Attempt:
        """The same, but it raises where there is nothing: for a front that tries several tools."""
        return self._attempt

    def _attempt(self, built: Built, workload: Workload) -> Profile:
        python = self.find_torch()
        if python is None:
            raise NoProfileError("torch is not installed, so torch.profiler can't stand in")
        arguments = self.oracle.inputs(workload, SEED)
        with tempfile.TemporaryDirectory(prefix=scratch_prefix("torch")) as folder:
            trace = Path(folder) / "trace.json"
            try:
                with self.runner.open(
                    built,
                    arguments,
                    threads=self.threads,
                    call_deadline_s=self.call_deadline_s,
                    launcher=launcher(python, trace),
                ) as session:
                    session.call(1)
                    begin_ns = time.time_ns()
                    session.call(CALLS)
            except KernelDiedError as died:
                raise NoProfileError(f"no profile from torch.profiler: {died}") from died
            try:
                text = trace.read_text(encoding="utf-8", errors="replace")
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
