"""Measured ceilings of this machine, outside of any campaign."""

from __future__ import annotations

from pathlib import Path

from roofsmith.api.hardware import leased_machine
from roofsmith.config import Settings
from roofsmith.domain.facts import FactSheet
from roofsmith.domain.kernel import Language
from roofsmith.engine.survey import usable_threads
from roofsmith.ports import Observer


def ceilings(
    threads: int | None, settings: Settings, observer: Observer, *, gpu: bool = False
) -> FactSheet:
    """What is kept for this machine; measured now if nothing is."""
    with leased_machine(settings, _language(gpu), observer) as machine:
        environment = machine.devices.environment()
        used = usable_threads(threads, environment.device)
        return machine.specs.facts(environment, used, observer)


def measure_ceilings(
    threads: int | None, settings: Settings, observer: Observer, *, gpu: bool = False
) -> FactSheet:
    """Measure now; the higher of the old and the new figure is kept."""
    with leased_machine(settings, _language(gpu), observer) as machine:
        environment = machine.devices.environment()
        used = usable_threads(threads, environment.device)
        return machine.specs.measure_again(environment, used, observer)


def kept_ceilings(settings: Settings) -> tuple[Path, ...]:
    """Files of kept ceilings, sorted."""
    return tuple(sorted(settings.ceilings_dir.glob("ceilings-*.json")))


def _language(gpu: bool) -> Language:
    """One that runs on the device: Triton's is whichever vendor's there is."""
    return "triton" if gpu else "c"
