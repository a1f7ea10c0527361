"""A device that isn't plugged in: what its page says stands for all that is measured elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from roofsmith.domain.device import Cache, Device, Environment
from roofsmith.domain.facts import FactSheet
from roofsmith.errors import UsageError
from roofsmith.judge.gpu.oracle import GpuOracle
from roofsmith.ports import Observer
from roofsmith.specs.wiki_datasheet import datasheet_of
from roofsmith.specs.wiki_page import Page

_KINDS: Final[dict[str, Literal["nvidia", "amd"]]] = {"NVIDIA": "nvidia", "AMD": "amd"}
_CORES: Final = ("execution.sm_count", "execution.cu_per_gcd", "execution.cu_count")


class ShapesOracle(GpuOracle):
    """Port `Oracle` that only describes: references in PyTorch, seen without a GPU."""

    module = "roofsmith.specs.shapes_process"


@dataclass(frozen=True, slots=True)
class Unplugged:
    """Ports `DeviceSource` and `SpecSource` of a product that this machine needn't have."""

    page: Page
    stated: Page
    """The same product, as those say who have the word."""

    def device(self) -> Device:
        """The product as its driver would show it, as far as its page says.

        Raises:
            UsageError: no kernels are written for it here.
        """
        page = self.page
        kind = _KINDS.get(page.vendor)
        if kind is None:
            raise UsageError(
                f"{page.product} is by {page.vendor}: no kernels are written for it here",
                hint="name a GPU by NVIDIA or AMD; `roofsmith specs list` has them",
            )
        l2 = self.stated.number("caches.l2_bytes")
        caches = (Cache(level=2, kind="unified", size_bytes=int(l2), shared_by=1),) if l2 else ()
        cores = next((n for metric in _CORES if (n := page.number(metric)) is not None), 0)
        return Device(
            kind=kind,
            name=next(iter(page.driver_names), page.product),
            cores=int(cores),
            caches=caches,
            memory_bytes=int(self.stated.number("memory.size_bytes") or 0),
            arch=page.compiler_arch,
        )

    def environment(self) -> Environment:
        return Environment(
            device=self.device(), system="not plugged in: cited facts alone", tools={}, packages={}
        )

    def facts(
        self,
        environment: Environment,
        threads: int,  # noqa: ARG002 - the port's
        observer: Observer,  # noqa: ARG002
    ) -> FactSheet:
        """The datasheet; nothing was measured."""
        device = environment.device
        return FactSheet(device_id=device.id, datasheet=datasheet_of(self.stated))
