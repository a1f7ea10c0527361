"""AMD's GPUs through the `amdsmi` package, which ROCm brings along.

Written from its documentation and source; no AMD GPU was at hand.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from roofsmith.devices.fleet_amd import HINT, hottest, unread, uuid_of, whole
from roofsmith.devices.fleet_processes import merged, seen
from roofsmith.devices.fleet_tools import (
    DEADLINE_S,
    Patience,
    entry,
    memory,
    share,
    size_bytes,
    words,
)
from roofsmith.devices.throttling_amd import of_bits, of_violations
from roofsmith.domain.fleet import GpuProcess, GpuStatus
from roofsmith.errors import MachineError

SENSORS = ("EDGE", "HOTSPOT")
_VIOLATIONS = {
    "prochot": "active_prochot_thrm", "socket_thermal": "active_socket_thrm",
    "vr_thermal": "active_vr_thrm", "hbm_thermal": "active_hbm_thrm", "ppt": "active_ppt_pwr",
}  # fmt: skip
"""Keys of `amdsmi_get_violation_status`."""


def find_amdsmi() -> Any:
    """The package; None where it isn't installed, or its library can't be loaded."""
    try:
        return importlib.import_module("amdsmi")
    except (ImportError, OSError, KeyError, AttributeError):
        # The package looks for libamd_smi.so on import, and fails in as many ways as there are.
        return None


@dataclass(slots=True)
class AmdSmiLibraryFleet:
    """Port `FleetSource` over amdsmi, which stays open."""

    find: Callable[[], Any] = find_amdsmi
    clock: Callable[[], float] = time.monotonic
    deadline_s: float = DEADLINE_S
    _patience: Patience[tuple[GpuStatus, ...]] = field(init=False, repr=False)
    _open: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        self._patience = Patience(self.deadline_s)

    def gpus(self) -> tuple[GpuStatus, ...]:
        """Every GPU that amdsmi shows.

        Raises:
            MachineError: it isn't installed, fails, or doesn't answer in time.
        """
        found = self._patience.ask(self._read)
        if found is None:
            raise MachineError("the amdsmi package doesn't answer", hint=HINT)
        return found

    def _read(self) -> tuple[GpuStatus, ...] | None:
        library = self.find()
        if library is None:
            return None
        if not self._open:
            # It answers None, so a failure has to be told from that.
            self._open = _told(library, "amdsmi_init", otherwise=False) is None
        handles = _told(library, "amdsmi_get_processor_handles") if self._open else None
        if not isinstance(handles, list):
            self._open = False
            return None
        found = [self._status(library, number, handle) for number, handle in enumerate(handles)]
        return tuple(sorted(found, key=lambda status: status.index))

    def _status(self, library: Any, number: int, handle: Any) -> GpuStatus:
        asic = _told(library, "amdsmi_get_gpu_asic_info", handle)
        names = _told(library, "amdsmi_get_gpu_enumeration_info", handle)
        used = _told(library, "amdsmi_get_gpu_vram_usage", handle)
        known = _processes(_told(library, "amdsmi_get_gpu_process_list", handle))
        reasons = _reasons(library, handle)
        return GpuStatus(
            uuid=uuid_of(
                words(entry(names, "hip_uuid")) or entry(asic, "asic_serial"),
                _told(library, "amdsmi_get_gpu_device_bdf", handle),
                number,
            ),
            index=whole(entry(names, "hip_id"), number),
            name=words(entry(asic, "market_name")) or "AMD GPU",
            kind="amd",
            utilisation=share(
                entry(_told(library, "amdsmi_get_gpu_activity", handle), "gfx_activity")
            ),
            **memory(
                size_bytes(entry(used, "vram_used"), "MB"),
                size_bytes(entry(used, "vram_total"), "MB"),
            ),
            temperature_c=hottest(_temperature(library, handle, sensor) for sensor in SENSORS),
            throttle_reasons=reasons or (),
            processes=known or (),
            unread=unread(known, reasons),
            at_s=self.clock(),
        )


def _temperature(library: Any, handle: Any, sensor: str) -> Any:
    kind = getattr(getattr(library, "AmdSmiTemperatureType", None), sensor, None)
    now = getattr(getattr(library, "AmdSmiTemperatureMetric", None), "CURRENT", None)
    return _told(library, "amdsmi_get_temp_metric", handle, kind, now)


def _reasons(library: Any, handle: Any) -> tuple[str, ...] | None:
    """Why clocks are held down; None if neither newer nor older GPUs' way tells."""
    flags = _told(library, "amdsmi_get_violation_status", handle)
    reasons = of_violations(lambda name: entry(flags, _VIOLATIONS[name]))
    if reasons is not None:
        return reasons
    metrics = _told(library, "amdsmi_get_gpu_metrics_info", handle)
    return of_bits(entry(metrics, "indep_throttle_status"))


def _processes(listed: Any) -> tuple[GpuProcess, ...] | None:
    """None if they aren't what releases since ROCm 6.2 give, a dictionary each."""
    if not isinstance(listed, list):
        return None
    found = []
    for row in listed:
        pid = whole(entry(row, "pid"), None)
        if pid is None:
            return None
        held = size_bytes(entry(row, "memory_usage", "vram_mem"))
        found.append(seen(pid, name=words(entry(row, "name")), memory_bytes=held))
    return merged(found)


def _told(library: Any, question: str, *arguments: Any, otherwise: Any = None) -> Any:
    """The answer; `otherwise` where this GPU, driver or release doesn't have it."""
    errors = getattr(library, "AmdSmiException", OSError)
    try:
        return getattr(library, question)(*arguments)
    except (errors, AttributeError, UnicodeDecodeError):
        return otherwise
