"""Measured ceilings with the product's datasheet beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofsmith.domain.device import Device, Environment
from roofsmith.domain.facts import FactSheet
from roofsmith.ports import Observer
from roofsmith.specs.ceilings import MeasuredCeilings
from roofsmith.specs.gpu_ceilings import GpuCeilings
from roofsmith.specs.wiki import Wiki
from roofsmith.specs.wiki_datasheet import datasheet_of, missing, unlike


@dataclass(frozen=True, slots=True)
class CitedCeilings:
    """Port `SpecSource`: what was measured, and what the wiki says of the product.

    A device is identified by the exact name that its driver prints, and by as many multiprocessors
    and as much memory as the product has. One that isn't has its measured ceilings alone, and a
    fact that says so; there are no pages of processors.
    """

    measured: MeasuredCeilings | GpuCeilings
    wiki: Callable[[], Wiki]
    """Only read for a GPU."""

    def facts(self, environment: Environment, threads: int, observer: Observer) -> FactSheet:
        return self._cited(self.measured.facts(environment, threads, observer), environment.device)

    def measure_again(
        self, environment: Environment, threads: int, observer: Observer
    ) -> FactSheet:
        """Measure now; the higher of the old and the new figure is kept."""
        sheet = self.measured.measure_again(environment, threads, observer)
        return self._cited(sheet, environment.device)

    def _cited(self, sheet: FactSheet, device: Device) -> FactSheet:
        wiki = self.wiki() if device.kind != "cpu" else None
        page = wiki.lookup(device.name) if wiki is not None else None
        why = unlike(page, device) if page is not None else None
        if wiki is not None and page is not None and why is None:
            return sheet.model_copy(update={"datasheet": datasheet_of(wiki.stated(page))})
        metric = f"datasheet of {device.name}" + (f" ({why})" if why else "")
        return sheet.model_copy(update={"other": (*sheet.other, missing(metric, "1"))})
