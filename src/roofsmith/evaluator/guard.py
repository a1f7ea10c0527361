"""Guards every use of the device: what was measured beside others doesn't count, or says so."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from roofsmith.domain.comparison import Judgement, Screening
from roofsmith.domain.outcome import Incorrect, Outcome, Unstable
from roofsmith.domain.processor_time import ProcessorTime
from roofsmith.domain.profile import Profile
from roofsmith.evaluator.steal import ProcessorTimes, steal_note
from roofsmith.ports import Gate, Measured, Result, Watched


def _unknown() -> ProcessorTime | None:
    return None


@dataclass(frozen=True, slots=True)
class Guard:
    """Watches a GPU through its gate; on processors, reads what a host takes away of them.

    Every use raises NoIdleGpuError where somebody stayed on the GPU for too long, or it is gone.
    """

    gate: Gate | None = None
    """In front of the GPU; None: kernels run on the host's processors."""
    processor_times: ProcessorTimes = _unknown
    """Asked where there is no gate."""

    def passed(self) -> AbstractContextManager[None]:
        """Nobody else is on the GPU when the block begins, and its turn is ours: for what others
        may disturb, but not change."""
        return nullcontext() if self.gate is None else self.gate.passed()

    def measured(self, measure: Callable[[], Measured], *, timed: bool) -> Measured:
        """One kernel alone; unless `timed`, outputs are compared, which nobody disturbs."""
        seen = self._watched(measure, lambda found: not timed or _is_wrong(found.outcome))
        if seen.void:
            return replace(seen.result, outcome=_interference(seen), timings=())
        return replace(seen.result, notes=(*seen.result.notes, *(seen.notes if timed else ())))

    def screened(self, screen: Callable[[], Screening]) -> Screening:
        """A cheap look at a candidate."""
        seen = self._watched(screen, lambda found: _is_wrong(found.outcome))
        return Screening(outcome=_interference(seen), speedup=None) if seen.void else seen.result

    def compared(self, compare: Callable[[], Judgement]) -> Judgement:
        """A candidate beside the incumbent; samples of tries that were disturbed are dropped."""
        seen = self._watched(compare, lambda found: _is_wrong(found.outcome))
        found = seen.result
        if seen.void:
            return Judgement(
                outcome=_interference(seen), verdict="rejected", errors=found.errors,
                isolation=found.isolation, self_reported=found.self_reported, wall_s=found.wall_s,
            )  # fmt: skip
        said = seen.notes if self.gate is not None or found.samples else ()
        return found.model_copy(update={"notes": (*found.notes, *said)}) if said else found

    def profiled(self, profile: Callable[[], Profile]) -> Profile:
        """A profile, which says so if it was taken beside others."""
        seen = self._watched(profile, lambda _: False)
        if not seen.void:
            return seen.result
        note = f"others were on the GPU: {seen.disturbances[-1]}"
        return seen.result.model_copy(update={"notes": (*seen.result.notes, note)})

    def _watched(
        self, measure: Callable[[], Result], stands: Callable[[Result], bool]
    ) -> Watched[Result]:
        if self.gate is not None:
            seen = self.gate.watch(measure, stands)
            again = (f"measured again after a disturbance: {d}" for d in seen.disturbances)
            return replace(seen, notes=tuple(again))
        begin = self.processor_times()
        result = measure()
        return Watched(result, notes=steal_note(begin, self.processor_times()))


def _is_wrong(outcome: Outcome) -> bool:
    """Whether it stands although the device was disturbed: outputs don't depend on others."""
    return isinstance(outcome, Incorrect)


def _interference(seen: Watched[Result]) -> Unstable:
    tries = len(seen.disturbances)
    return Unstable(
        reason="interference",
        detail=f"disturbed in each of {tries} tries, the last time by: {seen.disturbances[-1]}",
    )
