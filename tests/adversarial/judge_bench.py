"""Real kernels before the real judge: gcc, worker processes, a reference; workloads of kilobytes.

Every kernel here is `solve(const float *x, float *y, int n)` and should compute
`y[i] = x[i] * x[i] + 1`; what each does instead is the sample's point.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from roofsmith.analysis.statistics import least_observations
from roofsmith.domain.bound import Bound, Cost
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.facts import Citation, Fact
from roofsmith.domain.kernel import BuildSpec, Built, Candidate, SourceFile
from roofsmith.domain.outcome import Passed
from roofsmith.domain.target import KeepPolicy, Target
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.judge.host.lineup import HostBench
from roofsmith.judge.host.oracle import ReferenceOracle
from roofsmith.judge.parent import ProcessJudge
from roofsmith.ports import Measured
from roofsmith.testing.observer import SilentObserver
from roofsmith.toolchains.c import CToolchain

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

HONEST = """
void solve(const float *x, float *y, int n) {
    for (int i = 0; i < n; i++) y[i] = x[i] * x[i] + 1.0f;
}
"""

REFERENCE = """
import numpy as np

def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty(n, np.float32), "n": n}, "outputs": ["y"]}

def reference(x, y, n):
    y[:] = x * x + 1
"""

LENGTHS = (1000, 1003)
"""One that fills whole vectors, one that doesn't."""


class Bench:
    """A target, its reference in a process, and everything that is needed to judge for it."""

    def __init__(
        self,
        builds: Path,
        *,
        kernel: str = HONEST,
        reference: str = REFERENCE,
        workloads: Sequence[dict[str, int]] = tuple({"n": n} for n in LENGTHS),
        budget_s: float = 0.6,
        threads: int = 1,
        build: BuildSpec | None = None,
        ptr_size: int | None = None,
    ) -> None:
        self.target = Target(
            name="sample",
            language="c",
            kernel=SourceFile(path="kernel.c", text=kernel),
            reference=SourceFile(path="reference.py", text=reference),
            workloads=tuple(Workload(dims=dims) for dims in workloads),
            keep=KeepPolicy(judge_budget_s=budget_s),
            build=build or BuildSpec(),
            threads=threads,
            ptr_size=ptr_size,
        )
        self.threads = threads
        self.toolchain = CToolchain(builds)
        self.oracle = ReferenceOracle(self.target, self.toolchain.signature(self.target.baseline))

    def candidate(self, text: str, **environment: str) -> Candidate:
        build = self.target.build.model_copy(update={"environment": environment})
        return self.target.baseline.with_kernel_text(text).with_build(build)

    def built(self, text: str, **environment: str) -> Built:
        built = self.toolchain.build(self.candidate(text, **environment))
        assert isinstance(built, Built), built
        return built

    @property
    def classes(self) -> tuple[ConfigClass, ...]:
        labels = tuple(workload.label for workload in self.target.workloads)
        return (ConfigClass(name="all", workloads=labels, reason="a test"),)

    def judge(self, bounds: Sequence[Bound] = ()) -> ProcessJudge:
        bench = HostBench(self.oracle, self.target.tolerance, self.threads)
        return ProcessJudge(self.target, bench, self.classes, bounds)

    def check(self, text: str, **environment: str) -> Measured:
        """Examine a kernel; nothing is timed."""
        built = self.built(text, **environment)
        return self.judge().measure(built, SilentObserver(), timed=False)

    def compare(
        self, candidate: str, incumbent: str | None = None, bounds: Sequence[Bound] = ()
    ) -> Judgement:
        against = self.built(incumbent or self.target.kernel.text)
        return self.judge(bounds).compare(self.built(candidate), against, SilentObserver())


def undisturbed(judged: Judgement) -> Judgement:
    """A judgement on quiet pairs; on a machine that was too busy for one, the test is void."""
    comparison, notes = judged.comparison, judged.notes
    if not comparison and isinstance(judged.outcome, Passed) and notes:
        pytest.skip(f"this machine is too busy to judge: {notes}")
    assert comparison is not None, judged.outcome
    few = comparison.overall.pairs < least_observations(KeepPolicy().first.error_rate)
    if few or judged.verdict in ("inconclusive", "unverified"):
        pytest.skip(f"this machine is too busy to judge: {notes}")
    return judged


def command_lines(processes: Iterable[psutil.Process]) -> list[str]:
    """Of those that haven't ended meanwhile."""
    lines = []
    for process in processes:
        with suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return lines


def marked(mark: str) -> list[psutil.Process]:
    """Processes that carry a mark in their environment, zombies aside."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("OMP_SAMPLE_MARK") == mark and process.status() != "zombie":
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@contextmanager
def bench(builds: Path, **options: object) -> Iterator[Bench]:
    made = Bench(builds, **options)  # type: ignore[arg-type]
    with made.oracle:
        yield made


def bound_of(label: str, floor_time_s: float) -> Bound:
    """A roofline that allows nothing below `floor_time_s`."""
    cited = Citation(path="test")
    return Bound(
        workload=label,
        cost=Cost(flops=1e9, read_bytes=1e9, written_bytes=1e9, dtype="float32", source="test"),
        intensity=0.5,
        ridge=1.0,
        limiter="memory",
        floor_time_s=floor_time_s,
        bandwidth=Fact(metric="bandwidth", value=1e9, unit="byte/s", citation=cited),
        peak=Fact(metric="peak", value=1e9, unit="FLOP/s", citation=cited),
    )
