"""How fast one kernel is: on its own, against its ceilings and, on a GPU, beside PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofsmith.app.clocks import clock_notes
from roofsmith.app.subjects import Subject, target_of
from roofsmith.app.wiring import workshop
from roofsmith.config import Settings
from roofsmith.domain.bound import Bound
from roofsmith.domain.outcome import BuildFailed
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


def bench(subject: Subject, settings: Settings, observer: Observer) -> Benched:
    """Build a kernel, check its outputs, time it on its own, and hold it against yardsticks."""
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
            notes=clock_notes(shop.machine),
        )
        if not measured.timings:
            return Benched(measured, bounds)
        results = measure_yardsticks(
            shop.yardsticks,
            built,
            shop.machine.toolchain,
            shop.yardstick_judge or shop.judge,
            observer,
        )
        return Benched(measured, bounds, results)
