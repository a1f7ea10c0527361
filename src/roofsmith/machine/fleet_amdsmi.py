"""AMD's GPUs through the `amdsmi` package, which ROCm brings along.

Written from its documentation and source; no AMD GPU was at hand.

Why clocks are held down: newer GPUs (MI300 and later, from ROCm 6.3 on) tell it as violations, a
flag each; older ones (MI100, MI200, Radeon) as bits of `indep_throttle_status`. Source: AMD SMI's
documentation, "GPU violations", and `amdsmi_violation_status_t`.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from roofsmith.domain.fleet import GpuProcess, GpuStatus
from roofsmith.errors import MachineError
from roofsmith.machine.fleet_tools import (
    DEADLINE_S,
    DriverCalls,
    amd_uuid,
    entry,
    hottest,
    memory,
    merged,
    seen,
    share,
    size_bytes,
    unread,
    whole,
    words,
)

SENSORS = ("EDGE", "HOTSPOT")
VIOLATIONS: Mapping[str, str] = {
    "active_prochot_thrm": "hw_thermal_slowdown",
    "active_socket_thrm": "sw_thermal_slowdown",
    "active_vr_thrm": "hw_thermal_slowdown",
    "active_hbm_thrm": "hw_thermal_slowdown",
    "active_ppt_pwr": "sw_power_cap",
}
"""Of `amdsmi_get_violation_status`, in the words of `domain.health.ThrottleReason`: processor hot,
socket, voltage regulators, memory; and package power tracking, the limit that a kernel's own load
runs into."""
TOLD_BY_ALL = ("active_prochot_thrm", "active_socket_thrm")
"""Without these a GPU tells nothing of heat; memory that isn't HBM has no flag."""

_BITS: tuple[tuple[range, str], ...] = (
    (range(32), "sw_power_cap"),
    (range(32, 44), "sw_thermal_slowdown"),
    (range(44, 48), "hw_thermal_slowdown"),
    (range(48, 64), "sw_power_cap"),
)
"""Of `indep_throttle_status`: limits of power and current, temperatures, VRHOT and PROCHOT, and
power management. Source: SMU_THROTTLER_*_BIT in amdgpu_smu.h of Linux."""
_MOST_BITS = 1 << 64


def find_amdsmi() -> Any:
    """The package; None where it isn't installed, or its library can't be loaded."""
    try:
        return importlib.import_module("amdsmi")
    except (ImportError, OSError, KeyError, AttributeError):
        # The package looks for libamd_smi.so on import, and fails in as many ways as there are.
        return None


@dataclass(slots=True)
class AmdSmiFleet:
    """AMD's part of a fleet, by amdsmi, which stays open."""

    find: Callable[[], Any] = find_amdsmi
    deadline_s: float = DEADLINE_S
    _calls: DriverCalls[tuple[GpuStatus, ...]] = field(default_factory=DriverCalls, repr=False)
    _open: bool = field(default=False, repr=False)

    def gpus(self) -> tuple[GpuStatus, ...]:
        """Every GPU that amdsmi shows.

        Raises:
            MachineError: it isn't installed, fails, or doesn't answer in time.
        """
        found = self._calls.ask(self._read, self.deadline_s)
        if found is None:
            raise MachineError(
                "the amdsmi package doesn't answer",
                hint="install the one of this ROCm (pip install /opt/rocm/share/amd_smi); is the"
                " amdgpu driver loaded, is the user in group render?",
            )
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
        busy = _told(library, "amdsmi_get_gpu_activity", handle)
        known = _processes(_told(library, "amdsmi_get_gpu_process_list", handle))
        reasons = _reasons(library, handle)
        return GpuStatus(
            uuid=amd_uuid(
                words(entry(names, "hip_uuid")) or entry(asic, "asic_serial"),
                _told(library, "amdsmi_get_gpu_device_bdf", handle),
                number,
            ),
            index=whole(entry(names, "hip_id"), number),
            name=words(entry(asic, "market_name")) or "AMD GPU",
            kind="amd",
            utilisation=share(entry(busy, "gfx_activity")),
            **memory(
                size_bytes(entry(used, "vram_used"), "MB"),
                size_bytes(entry(used, "vram_total"), "MB"),
            ),
            temperature_c=hottest(_temperature(library, handle, sensor) for sensor in SENSORS),
            throttle_reasons=reasons or (),
            processes=known or (),
            unread=unread(known, reasons),
            at_s=time.monotonic(),
        )


def of_violations(flags: object) -> tuple[str, ...] | None:
    """Reasons, sorted; None where heat's own flags can't be read."""
    active = {name: entry(flags, name) for name in VIOLATIONS}
    if any(not isinstance(active[name], int) or active[name] not in (0, 1) for name in TOLD_BY_ALL):
        return None
    return tuple(sorted({VIOLATIONS[name] for name, said in active.items() if said in (1, True)}))


def of_bits(bits: object) -> tuple[str, ...] | None:
    """Reasons by `indep_throttle_status`, sorted; None where that is no such number."""
    if not isinstance(bits, int) or isinstance(bits, bool) or not 0 <= bits < _MOST_BITS - 1:
        return None  # all bits set: the driver has none
    return tuple(
        sorted({name for places, name in _BITS if any(bits >> place & 1 for place in places)})
    )


def _reasons(library: Any, handle: Any) -> tuple[str, ...] | None:
    """Why clocks are held down; None if neither newer nor older GPUs' way tells."""
    reasons = of_violations(_told(library, "amdsmi_get_violation_status", handle))
    if reasons is not None:
        return reasons
    metrics = _told(library, "amdsmi_get_gpu_metrics_info", handle)
    return of_bits(entry(metrics, "indep_throttle_status"))


def _temperature(library: Any, handle: Any, sensor: str) -> Any:
    kind = getattr(getattr(library, "AmdSmiTemperatureType", None), sensor, None)
    now = getattr(getattr(library, "AmdSmiTemperatureMetric", None), "CURRENT", None)
    return _told(library, "amdsmi_get_temp_metric", handle, kind, now)


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
