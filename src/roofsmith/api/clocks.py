"""Clocks of the GPU that is measured on: held where that is asked for, never left behind."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from roofsmith.config import Settings
from roofsmith.domain.fleet import Fleet
from roofsmith.errors import UsageError
from roofsmith.machine.amd import AmdSource
from roofsmith.machine.clocks import restore_abandoned
from roofsmith.machine.clocks_nvidia import NvmlClocks
from roofsmith.machine.fleet import HostFleet
from roofsmith.machine.idle import described
from roofsmith.machine.nvidia import NvidiaSource
from roofsmith.machine.processes import OwnProcesses, exists
from roofsmith.ports import DeviceSource

LOOK_AGAIN_S = 1.0
"""A driver lists a process that has just ended for some tenths of a second longer."""


@dataclass(frozen=True, slots=True)
class ClockedGpu:
    """A GPU whose clocks can be held, and who sees what else runs on it."""

    uuid: str
    driver: NvmlClocks
    fleet: Fleet
    sleep: Callable[[float], None] = time.sleep
    partners: Callable[[Collection[int]], Collection[int]] = lambda _: ()
    """Which of some processes take turns with us: they compute in no turn of ours."""

    def strangers(self, uuid: str) -> tuple[str, ...]:
        """Processes on the GPU that are none of ours; what isn't known counts as somebody."""
        if self._others(uuid):
            self.sleep(LOOK_AGAIN_S)
        return self._others(uuid)

    def _others(self, uuid: str) -> tuple[str, ...]:
        gpu = next((gpu for gpu in self.fleet() if gpu.uuid == uuid), None)
        if gpu is None:
            return ("somebody perhaps: the driver doesn't list this GPU",)
        if "processes" in gpu.unread:
            return ("somebody perhaps: the driver doesn't list its processes",)
        # Numbers that mean nothing here are another container's: none of ours is on the GPU yet.
        pids = {process.pid for process in gpu.processes}
        own = {*OwnProcesses().among(pids), *self.partners(pids)}
        return tuple(described(p) for p in gpu.processes if p.pid not in own or not exists(p.pid))


Find = Callable[[DeviceSource], ClockedGpu | None]


def clocked(devices: DeviceSource) -> ClockedGpu | None:
    """The GPU that kernels run on, if its clocks can be held; None for AMD's and the processors."""
    if not isinstance(devices, NvidiaSource):
        return None
    return ClockedGpu(devices.uuid(), NvmlClocks(), HostFleet("nvidia").gpus)


def let_go_of_abandoned(settings: Settings, driver: NvmlClocks | None = None) -> frozenset[str]:
    """Undo what killed runs left locked, on every GPU, whichever this run will get.

    Returns:
        UUIDs of GPUs whose clocks may be locked still.
    """
    return restore_abandoned(driver or NvmlClocks(), settings.clocks_dir, say)


def noting_locks(
    devices: DeviceSource, locked: Collection[str], find: Find = clocked
) -> DeviceSource:
    """The source, with a note if the clocks of its GPU are among those that may be locked."""
    gpu = find(devices) if locked else None
    if gpu is None or gpu.uuid not in locked:
        return devices
    return noted(devices, "clocks may be locked by another run, or by one that was killed")


def noted(devices: DeviceSource, note: str | None) -> DeviceSource:
    """The source, with a note on its GPU for every record of what is measured there."""
    if note is None or not isinstance(devices, NvidiaSource | AmdSource):
        return devices
    return replace(devices, beside=(*devices.beside, note))


def clock_notes(devices: DeviceSource) -> tuple[str, ...]:
    """What a judgement says about the clocks that it was made at; empty where they are free."""
    return devices.beside if isinstance(devices, NvidiaSource | AmdSource) else ()


def no_clocks(devices: DeviceSource | None = None) -> UsageError:
    """Why `--lock-clocks` is nothing for AMD's GPUs, nor for the host's processors."""
    if isinstance(devices, AmdSource):
        return UsageError(
            "--lock-clocks holds the clocks of NVIDIA's GPUs, and this kernel runs on one of AMD's",
            hint="leave it out; for steadier clocks: sudo rocm-smi --setperfdeterminism MHZ",
        )
    return UsageError(
        "--lock-clocks holds a GPU's clocks, and this kernel runs on the host's processors: their"
        " clocks are the operating system's and every other program's",
        hint="leave it out; for steadier clocks: sudo cpupower frequency-set -g performance",
    )


def say(message: str) -> None:
    """To the user at once, whatever else is on the screen."""
    print(f"roofsmith: {message}", file=sys.stderr, flush=True)
