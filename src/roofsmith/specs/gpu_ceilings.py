"""Ceilings of a GPU: the same measuring as on a processor, with the GPU's kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from roofsmith.domain.device import Device, Environment
from roofsmith.domain.facts import FactSheet
from roofsmith.ports import Clock, Gate, KernelRunner, Observer, Toolchain
from roofsmith.specs.ceilings import Kit, MeasuredCeilings
from roofsmith.specs.gpu_benches import (
    FMA_TYPES,
    MMA_TYPES,
    PATTERNS,
    WHOLE_DEVICE,
    gpu_benches,
    gpu_language,
    gpu_working_sets,
)
from roofsmith.specs.sheet import Key, unknown_sheet


def _keys(device: Device, _threads: int) -> list[Key]:
    sizes = gpu_working_sets(device)
    return [
        *(("bandwidth", pattern, WHOLE_DEVICE, size) for size in sizes for pattern in PATTERNS),
        ("shared", "read", WHOLE_DEVICE, 0),
        *(("fma", dtype, WHOLE_DEVICE, 0) for dtype in FMA_TYPES),
        *(("mma", dtype, WHOLE_DEVICE, 0) for dtype in MMA_TYPES[gpu_language(device)]),
    ]


GPU_KIT: Final = Kit(
    gpu_benches,
    _keys,
    tools=("nvcc", "hipcc", "nvidia driver", "cuda driver", "amdgpu driver"),
    whole_device=True,
)


@dataclass(frozen=True, slots=True)
class GpuCeilings:
    """Port `SpecSource` for GPUs: ceilings of memory, caches, shared memory, arithmetic, matrix
    units and launches, measured once.

    Kept per device, compiler and driver, cited as measurements, and UNKNOWN with the reason where
    they can't be measured, all as `MeasuredCeilings` does it. What this device can't do (fp8 before
    compute capability 8.9 or gfx942) or what nothing here reaches the peak of (compute capability
    10.x, gfx908) is UNKNOWN as well.
    """

    runner: KernelRunner
    toolchain: Toolchain
    cache_dir: Path
    clock: Clock
    kit: Kit = field(default=GPU_KIT)
    gate: Gate | None = None

    def facts(self, environment: Environment, threads: int, observer: Observer) -> FactSheet:  # noqa: ARG002
        """The kept ceilings of the whole device, else freshly measured ones.

        `threads` doesn't matter: a GPU's kernels always have all of it.
        """
        return _complete(self._measured.facts(environment, WHOLE_DEVICE, observer), environment)

    def measure_again(
        self,
        environment: Environment,
        threads: int,  # noqa: ARG002
        observer: Observer,
    ) -> FactSheet:
        """Measure now, and keep per ceiling the higher of the old and the new figure."""
        sheet = self._measured.measure_again(environment, WHOLE_DEVICE, observer)
        return _complete(sheet, environment)

    @property
    def _measured(self) -> MeasuredCeilings:
        return MeasuredCeilings(
            runner=self.runner,
            toolchain=self.toolchain,
            cache_dir=self.cache_dir,
            clock=self.clock,
            kit=self.kit,
            gate=self.gate,
        )


def _complete(sheet: FactSheet, environment: Environment) -> FactSheet:
    """Say UNKNOWN of every arithmetic ceiling that wasn't found, instead of nothing."""
    found = {(ceiling.operation, ceiling.dtype) for ceiling in sheet.compute}
    device = environment.device
    missing = [
        key
        for key in _keys(device, WHOLE_DEVICE)
        if key[0] in ("fma", "mma") and key[:2] not in found
    ]
    if not missing:
        return sheet
    reason = f"{device.arch or device.name} has no such instructions, or none that is measured here"
    unknown = unknown_sheet(device, missing, reason)
    return sheet.model_copy(update={"compute": (*sheet.compute, *unknown.compute)})
