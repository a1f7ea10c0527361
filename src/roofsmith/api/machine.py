"""Measured ceilings of this machine, outside of any campaign."""

from __future__ import annotations

from roofsmith.api.hardware import leased_machine
from roofsmith.config import Settings
from roofsmith.domain.facts import FactSheet
from roofsmith.engine.survey import usable_threads
from roofsmith.ports import Observer


def ceilings(
    threads: int | None,
    settings: Settings,
    observer: Observer,
    *,
    gpu: bool = False,
    again: bool = False,
) -> FactSheet:
    """What is kept for this machine; measured now if nothing is. `again`: the higher is kept.

    On a GPU, the language is Triton's, which runs on whichever vendor's there is.
    """
    with leased_machine(settings, "triton" if gpu else "c", observer) as machine:
        environment = machine.devices.environment()
        used = usable_threads(threads, environment.device)
        specs = machine.specs
        measure = specs.measure_again if again else specs.facts
        return measure(environment, used, observer)
