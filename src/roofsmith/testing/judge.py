"""A judge, an oracle and a runner whose kernels are as fast as the test says."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from numpy.typing import NDArray

from roofsmith.analysis.compare import compare, counts_twice, is_win
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.comparison import (
    Comparison,
    Judgement,
    PairSample,
    Screening,
    Timing,
    Validation,
)
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import Built, Candidate
from roofsmith.domain.outcome import Outcome, Passed
from roofsmith.domain.target import KeepPolicy, Target
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.ports import Measured, Observer, Scope

SWEEPS = 40
"""Pairs per workload in a faked comparison: enough for any verdict on a 5% difference."""


@dataclass
class FakeKernels:
    """What the kernels of a test are like, by candidate id. Unknown ones take `default_time_s`."""

    default_time_s: float = 1e-3
    times_s: dict[str, float] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    times_on_s: dict[tuple[str, str], float] = field(default_factory=dict)
    """By candidate id and workload label, where a workload differs from the rest."""

    def add(
        self,
        candidate: Candidate,
        *,
        time_s: float | None = None,
        on: Mapping[str, float] | None = None,
        outcome: Outcome | None = None,
    ) -> Candidate:
        """Say how long a candidate takes, `on` some workloads, or how it fails; returns it."""
        if time_s is not None:
            self.times_s[candidate.id] = time_s
        for label, here_s in (on or {}).items():
            self.times_on_s[candidate.id, label] = here_s
        if outcome is not None:
            self.outcomes[candidate.id] = outcome
        return candidate

    def time_s(self, candidate_id: str, workload: str = "") -> float:
        """Seconds per call."""
        everywhere_s = self.times_s.get(candidate_id, self.default_time_s)
        return self.times_on_s.get((candidate_id, workload), everywhere_s)

    def outcome(self, candidate_id: str) -> Outcome:
        """How checking it ends."""
        return self.outcomes.get(candidate_id, Passed())


class FakeJudge:
    """Judges by the book on invented samples: half a percent of noise, always the same."""

    def __init__(
        self,
        target: Target,
        kernels: FakeKernels,
        classes: tuple[ConfigClass, ...],
        floors: Mapping[str, float | None],
    ) -> None:
        self._target = target
        self._kernels = kernels
        self._classes = classes
        self._floors = floors
        self._earlier: tuple[Judgement, ...] = ()

    def measure(self, candidate: Built, observer: Observer, *, timed: bool = True) -> Measured:
        observer.stage("check")
        outcome = self._kernels.outcome(candidate.candidate_id)
        if not isinstance(outcome, Passed) or not timed:
            return Measured(outcome=outcome, timings=(), errors=())
        observer.stage("time")
        timings = tuple(self._timing(candidate, w) for w in self._target.workloads)
        return Measured(outcome=outcome, timings=timings, errors=())

    def screen(self, candidate: Built, incumbent: Built) -> Screening:
        outcome = self._kernels.outcome(candidate.candidate_id)
        if not isinstance(outcome, Passed):
            return Screening(outcome=outcome, speedup=None)
        times = [self._kernels.time_s(b.candidate_id) for b in (incumbent, candidate)]
        return Screening(outcome=outcome, speedup=times[0] / times[1])

    def compare(
        self, candidate: Built, incumbent: Built, observer: Observer, scope: Scope | None = None
    ) -> Judgement:
        """Check, then invented pairs; a win or a divergence is measured a second time."""
        if scope is not None:
            return self._within(scope)._judged(candidate, incumbent, observer, quick=scope.quick)
        return self._judged(candidate, incumbent, observer)

    def _within(self, scope: Scope) -> FakeJudge:
        labels = {label for found in scope.classes for label in found.workloads}
        few = tuple(w for w in self._target.workloads if w.label in labels)
        target = self._target.model_copy(update={"workloads": few})
        judge = FakeJudge(target, self._kernels, scope.classes, self._floors)
        judge._earlier = scope.earlier
        return judge

    def _judged(
        self, candidate: Built, incumbent: Built, observer: Observer, *, quick: bool = False
    ) -> Judgement:
        validation: Validation = "quick" if quick else "full"
        observer.stage("check")
        outcome = self._kernels.outcome(candidate.candidate_id)
        if not isinstance(outcome, Passed):
            return Judgement(outcome=outcome, verdict="rejected", validation=validation, wall_s=0.0)
        observer.stage("time")
        samples = self._pairs(candidate, incumbent, instance=0)
        before = [one.samples for one in self._earlier]
        comparison = self._compared(samples, self._target.keep.first, before)
        confirmation: tuple[PairSample, ...] = ()
        clock: tuple[PairSample, ...] = ()
        if counts_twice(comparison) and not quick:
            won = is_win(comparison)
            confirmation = self._pairs(candidate, incumbent, instance=1)
            before = [one.confirmation for one in self._earlier]
            comparison = self._compared(confirmation, self._target.keep, before)
            if won and is_win(comparison):
                clock = self._pairs(candidate, incumbent, instance=2)
        return Judgement(
            outcome=outcome,
            verdict=comparison.overall.verdict,
            comparison=comparison,
            samples=samples,
            confirmation=confirmation,
            clock=clock,
            validation=validation,
            judge="fake",
            earlier=self._earlier,
            isolation="fake",
            wall_s=0.0,
        )

    def _compared(
        self,
        samples: Sequence[PairSample],
        policy: KeepPolicy,
        earlier: Sequence[Sequence[PairSample]],
    ) -> Comparison:
        target = self._target
        found = compare(samples, target.workloads, self._classes, self._floors, policy, earlier)
        assert found is not None, "every workload has valid pairs"
        return found

    def _pairs(
        self, candidate: Built, incumbent: Built, *, instance: int
    ) -> tuple[PairSample, ...]:
        ids = (incumbent.candidate_id, candidate.candidate_id)
        noise = _noise(*ids, str(instance))
        return tuple(
            PairSample(
                workload=workload.label,
                sweep=sweep,
                instance=instance,
                first="incumbent" if sweep % 2 else "candidate",
                incumbent_time_s=(self._kernels.time_s(ids[0], workload.label) * next(noise),),
                candidate_time_s=(self._kernels.time_s(ids[1], workload.label) * next(noise),),
            )
            for sweep in range(SWEEPS)
            for workload in self._target.workloads
        )

    def _timing(self, built: Built, workload: Workload) -> Timing:
        noise = _noise(built.candidate_id, workload.label)
        true_s = self._kernels.time_s(built.candidate_id, workload.label)
        samples = [true_s * next(noise) for _ in range(SWEEPS)]
        return Timing(
            workload=workload.label,
            dims=workload.dims,
            config_class=next(c.name for c in self._classes if workload.label in c.workloads),
            time_s=median(samples),
            ci=(min(samples), max(samples)),
            samples_s=tuple(samples),
            floor_time_s=self._floors[workload.label],
        )


class FakeOracle:
    """A reference for `solve(x, y, n)` of `roofsmith.testing.toolchain`: y = 2 x."""

    def describe(self, workload: Workload) -> WorkloadDescription:
        n = workload.dims["n"]
        arrays = tuple(
            ArraySpec(name=name, role=role, dtype="float32", shape=(n,))
            for name, role in (("x", "input"), ("y", "output"))
        )
        return WorkloadDescription(
            arrays=arrays, scalars={"n": n}, flops=float(n), bytes=None, atol=None, rtol=None
        )

    def inputs(self, workload: Workload, seed: int) -> dict[str, NDArray[np.generic] | int]:
        n = workload.dims["n"]
        x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
        return {"x": x, "y": np.zeros(n, dtype=np.float32), "n": n}


def _noise(*names: str) -> Iterator[float]:
    """Factors around 1 with half a percent of spread, the same for the same names."""
    seed = int.from_bytes(hashlib.sha256(" ".join(names).encode()).digest()[:8], "big")
    generator = np.random.default_rng(seed)
    while True:
        yield float(np.exp(generator.normal(0.0, 0.005)))
