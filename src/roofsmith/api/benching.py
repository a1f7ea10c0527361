"""How fast one kernel is: on its own, against its ceilings and, on a GPU, beside PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofsmith.analysis.short_kernels import judged_time_note
from roofsmith.api.clocks import clock_notes
from roofsmith.api.subjects import target_of
from roofsmith.api.wiring import open_target
from roofsmith.config import Settings
from roofsmith.domain.bound import Bound
from roofsmith.domain.measure import TIME, Measure
from roofsmith.domain.options import Subject
from roofsmith.domain.profile import Profile
from roofsmith.domain.target import HOST_LANGUAGES, Target
from roofsmith.domain.workload import Workload
from roofsmith.domain.yardstick import PyTorchBaselineResult
from roofsmith.ports import Measured, Observer, Scope, required


@dataclass(frozen=True, slots=True)
class Benched:
    """What timing one kernel gave."""

    measured: Measured
    bounds: tuple[Bound, ...]
    """Of every workload."""
    yardsticks: tuple[PyTorchBaselineResult, ...] = ()
    """None on the host's processors, and none for a kernel that can't be timed."""
    profile: Profile | None = None
    """On the workload that takes longest; None where nobody looked, and off a GPU."""
    measure: Measure = TIME
    """What was measured."""


def bench(
    subject: Subject, settings: Settings, observer: Observer, *, profiled: bool = True
) -> Benched:
    """Build a kernel, check its outputs, time it on its own, and hold it against yardsticks.

    Args:
        subject: the kernel.
        settings: where caches are.
        observer: hears what happens.
        profiled: have a profiler look at it as well, where it runs on a GPU.
    """
    with open_target(target_of(subject), settings, observer, reads=True) as opened:
        target, bounds = opened.target, opened.survey.bounds
        evaluator = opened.evaluator_for(custom_only=False)
        found = evaluator.evaluate(target.baseline, None, Scope(alone="time"))
        measured = required(found.measured)
        if found.failure is not None:
            return Benched(measured, bounds)
        measured = replace(
            measured,
            resources=found.resources,
            notes=(*found.notes, *_short(measured, target), *clock_notes(opened.machine.devices)),
        )
        if not measured.timings:
            return Benched(measured, bounds, measure=target.measure)
        slowest = slowest_on_gpu(target, measured) if profiled else None
        scope = Scope(yardsticks=opened.yardsticks, profile=slowest)
        found = evaluator.evaluate(target.baseline, None, scope)
        return Benched(measured, bounds, found.yardsticks, found.profile, target.measure)


def _short(measured: Measured, target: Target) -> tuple[str, ...]:
    """Which time was measured, where that matters."""
    if target.language in HOST_LANGUAGES or target.command is not None:
        return ()
    times_s = [(timing.workload, timing.time_s) for timing in measured.timings]
    note = judged_time_note(times_s, target.timing)
    return () if note is None else (note,)


def slowest_on_gpu(target: Target, measured: Measured) -> Workload | None:
    """The workload that takes a kernel longest: how much of the GPU does it keep busy there?

    None off a GPU, where speed of light and occupancy mean nothing, and where a repository's own
    commands run the kernel.
    """
    if target.language in HOST_LANGUAGES or target.command is not None:
        return None
    return target.workload(max(measured.timings, key=lambda timing: timing.time_s).workload)
