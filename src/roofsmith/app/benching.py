"""How fast one kernel is: on its own, against its ceilings and, on a GPU, beside PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofsmith.analysis.short_kernels import judged_time_note
from roofsmith.app.clocks import clock_notes
from roofsmith.app.subjects import Subject, target_of
from roofsmith.app.wiring import Workshop, workshop
from roofsmith.config import Settings
from roofsmith.domain.bound import Bound
from roofsmith.domain.kernel import Built
from roofsmith.domain.measure import TIME, Measure
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.profile import Profile
from roofsmith.domain.target import HOST_LANGUAGES
from roofsmith.domain.yardstick import YardstickResult
from roofsmith.engine.yardsticks import measure_yardsticks
from roofsmith.ports import Measured, Observer


@dataclass(frozen=True, slots=True)
class Benched:
    """What timing one kernel gave."""

    measured: Measured
    bounds: tuple[Bound, ...]
    """Of every workload."""
    yardsticks: tuple[YardstickResult, ...] = ()
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
    with workshop(target_of(subject), settings, observer) as shop:
        bounds = shop.survey.bounds
        observer.stage("build", shop.target.kernel.path)
        built = shop.machine.toolchain.build(shop.target.baseline)
        if isinstance(built, BuildFailed):
            return Benched(Measured(outcome=built, timings=(), errors=()), bounds)
        measured = shop.judge.measure(built, observer)
        measured = replace(
            measured,
            resources=shop.machine.toolchain.resources(built),
            notes=(*built.notes, *_short(measured, shop), *clock_notes(shop.machine)),
        )
        if not measured.timings:
            return Benched(measured, bounds, measure=shop.target.measure)
        results = measure_yardsticks(
            shop.yardsticks,
            built,
            shop.machine.toolchain,
            shop.yardstick_judge or shop.judge,
            observer,
        )
        seen = profile_of_slowest(shop, built, measured) if profiled else None
        return Benched(measured, bounds, results, seen, shop.target.measure)


def _short(measured: Measured, shop: Workshop) -> tuple[str, ...]:
    """Which time was measured, where that matters."""
    if shop.target.language in HOST_LANGUAGES or shop.target.command is not None:
        return ()
    times_s = [(timing.workload, timing.time_s) for timing in measured.timings]
    note = judged_time_note(times_s, shop.target.timing)
    return () if note is None else (note,)


def profile_of_slowest(shop: Workshop, built: Built, measured: Measured) -> Profile | None:
    """How much of the GPU a kernel keeps busy, on the workload that takes it longest.

    None off a GPU, where speed of light and occupancy mean nothing, and where a repository's own
    commands run the kernel. A profiler that isn't there or isn't allowed is a note in the profile.
    """
    if shop.target.language in HOST_LANGUAGES or shop.target.command is not None:
        return None
    label = max(measured.timings, key=lambda timing: timing.time_s).workload
    shop.observer.stage("profile", label)
    return shop.profiler.profile(built, shop.target.workload(label))
