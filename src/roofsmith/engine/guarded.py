"""Judge, profiler, inspector and tracer behind a gate: each use of the GPU is watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from roofsmith.domain.comparison import Judgement, Screening
from roofsmith.domain.inspection import Inspection
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Incorrect, Unstable
from roofsmith.domain.profile import Profile
from roofsmith.domain.transfer import KeptValue, Trace
from roofsmith.domain.workload import Workload
from roofsmith.ports import (
    Gate,
    Inspector,
    Judge,
    Measured,
    Observer,
    Profiler,
    Result,
    Scope,
    Tracer,
    Watched,
)


@dataclass(frozen=True, slots=True)
class GuardedJudge:
    """Port `Judge`: what was measured beside others, or with clocks held down, doesn't count."""

    judge: Judge
    gate: Gate

    def measure(self, candidate: Built, observer: Observer, *, timed: bool = True) -> Measured:
        """As the judge does; unless `timed`, only outputs are compared, which nobody disturbs."""
        seen = self._watched(
            lambda: self.judge.measure(candidate, observer, timed=timed),
            lambda found: not timed or isinstance(found.outcome, Incorrect),
        )
        if not seen.void:
            return seen.result
        return replace(seen.result, outcome=_interference(seen), timings=())

    def screen(self, candidate: Built, incumbent: Built) -> Screening:
        """As the judge does."""
        seen = self._watched(
            lambda: self.judge.screen(candidate, incumbent),
            lambda found: isinstance(found.outcome, Incorrect),
        )
        return Screening(outcome=_interference(seen), speedup=None) if seen.void else seen.result

    def compare(
        self, candidate: Built, incumbent: Built, observer: Observer, scope: Scope | None = None
    ) -> Judgement:
        """As the judge does; samples of tries that were disturbed are dropped."""
        seen = self._watched(
            lambda: self.judge.compare(candidate, incumbent, observer, scope),
            lambda found: isinstance(found.outcome, Incorrect),
        )
        found = seen.result
        if seen.void:
            return Judgement(
                outcome=_interference(seen), verdict="rejected", errors=found.errors,
                isolation=found.isolation, self_reported=found.self_reported, wall_s=found.wall_s,
            )  # fmt: skip
        again = tuple(f"measured again after a disturbance: {d}" for d in seen.disturbances)
        return found.model_copy(update={"notes": (*found.notes, *again)}) if again else found

    def _watched(
        self, measure: Callable[[], Result], stands: Callable[[Result], bool]
    ) -> Watched[Result]:
        return self.gate.watch(measure, stands)


@dataclass(frozen=True, slots=True)
class GuardedProfiler:
    """Port `Profiler`: a profile that was taken beside others says so."""

    profiler: Profiler
    gate: Gate

    def profile(self, built: Built, workload: Workload) -> Profile:
        """As the profiler does."""
        seen = self.gate.watch(lambda: self.profiler.profile(built, workload))
        if not seen.void:
            return seen.result
        note = f"others were on the GPU: {seen.disturbances[-1]}"
        return seen.result.model_copy(update={"notes": (*seen.result.notes, note)})


@dataclass(frozen=True, slots=True)
class GuardedInspector:
    """Port `Inspector`: what sanitizers find doesn't depend on others, but nobody is disturbed."""

    inspector: Inspector
    gate: Gate

    def inspect(self, built: Built, workload: Workload) -> Inspection:
        """As the inspector does."""
        self.gate.pass_through()
        return self.inspector.inspect(built, workload)


@dataclass(frozen=True, slots=True)
class GuardedTracer:
    """Port `Tracer`: outputs don't depend on others, but nobody is disturbed."""

    tracer: Tracer
    gate: Gate

    def trace(
        self, built: Built, workload: Workload, kept_values: Sequence[KeptValue]
    ) -> Trace | str:
        """As the tracer does."""
        self.gate.pass_through()
        return self.tracer.trace(built, workload, kept_values)


def _interference(seen: Watched[Result]) -> Unstable:
    tries = len(seen.disturbances)
    return Unstable(
        reason="interference",
        detail=f"disturbed in each of {tries} tries, the last time by: {seen.disturbances[-1]}",
    )
