"""NVML, NVIDIA's management library: how a GPU is set up, and how it is right now."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pynvml

from roofsmith.devices.nvidia_smi import GpuSettings
from roofsmith.domain.health import Health

_MEGA: Final = 1e6
CENSUS_S: Final = 0.25
"""Seconds. Who computes, and in how much memory, is asked no more often: the driver takes
milliseconds for either, and a segment, around which sensors are read, lasts no longer. Chosen."""

THROTTLE_REASONS: Final = {
    pynvml.nvmlClocksThrottleReasonSwPowerCap: "sw_power_cap",
    pynvml.nvmlClocksThrottleReasonHwSlowdown: "hw_slowdown",
    pynvml.nvmlClocksThrottleReasonSyncBoost: "sync_boost",
    pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: "sw_thermal_slowdown",
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "hw_thermal_slowdown",
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "hw_power_brake",
    pynvml.nvmlClocksThrottleReasonDisplayClockSetting: "display_clocks",
}
"""Bits that slow a kernel down unasked; idling and clocks that somebody set are not among them."""

COMPUTE_MODES: Final = {
    0: "Default",
    1: "Exclusive_Thread",
    2: "Prohibited",
    3: "Exclusive_Process",
}


def ask_nvml(uuid: str) -> GpuSettings | None:
    """How the GPU is set up; None where NVML isn't there or doesn't know it."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        return _settings(pynvml.nvmlDeviceGetHandleByUUID(uuid), uuid)
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def _settings(handle: Any, uuid: str) -> GpuSettings:
    name = _told(pynvml.nvmlDeviceGetName, handle)
    capability = _told(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    memory = _told(pynvml.nvmlDeviceGetMemoryInfo, handle)
    ecc, mig = (
        _told(pynvml.nvmlDeviceGetEccMode, handle),
        _told(pynvml.nvmlDeviceGetMigMode, handle),
    )
    persistence = _told(pynvml.nvmlDeviceGetPersistenceMode, handle)
    return GpuSettings(
        uuid=uuid,
        name=_string(name) or "",
        driver=_string(_told(pynvml.nvmlSystemGetDriverVersion)),
        cuda=_cuda_version(_told(pynvml.nvmlSystemGetCudaDriverVersion)),
        arch=None if capability is None else f"sm_{capability[0]}{capability[1]}",
        memory_bytes=None if memory is None else int(memory.total),
        max_sm_clock_hz=_clock(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
        max_memory_clock_hz=_clock(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_MEM),
        sm_clock_hz=_clock(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        application_clock_hz=_clock(
            pynvml.nvmlDeviceGetApplicationsClock, handle, pynvml.NVML_CLOCK_GRAPHICS
        ),
        power_limit_w=_watt(_told(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)),
        default_power_limit_w=_watt(_told(pynvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)),
        power_draw_w=_watt(_told(pynvml.nvmlDeviceGetPowerUsage, handle)),
        temperature_c=_number(
            _told(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
        ),
        thermal_margin_c=_margin(handle),
        ecc=None if ecc is None else bool(ecc[0]),
        mig=None if mig is None else bool(mig[0]),
        persistence=None if persistence is None else bool(persistence),
        compute_mode=COMPUTE_MODES.get(_told(pynvml.nvmlDeviceGetComputeMode, handle)),
    )


@dataclass(frozen=True, slots=True)
class _Census:
    """Who computes on a GPU; what the driver doesn't tell is None."""

    at_s: float
    memory_used_bytes: int | None
    processes: tuple[int, ...] | None


@dataclass(slots=True)
class NvmlHealth:
    """Port `HealthSource` over NVML: opened at the first sample, and kept open.

    Threads may share one. A process that forks after the first sample must make a new one.
    """

    clock: Callable[[], float] = time.monotonic
    _handles: dict[str, Any] = field(default_factory=dict)
    _censuses: dict[str, _Census] = field(default_factory=dict)
    """The last of every GPU."""
    _dead: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sample(self, uuid: str) -> Health | None:
        """The GPU's sensors now, its processes and memory no older than `CENSUS_S`; None where NVML
        doesn't answer."""
        handle = self._handle(uuid)
        if handle is None:
            return None
        use = _told(pynvml.nvmlDeviceGetUtilizationRates, handle)
        bits = _told(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        now_s = self.clock()
        census = self._census(uuid, handle, now_s)
        return Health(
            uuid=uuid,
            at_s=now_s,
            sm_clock_hz=_clock(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
            memory_clock_hz=_clock(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM),
            temperature_c=_number(
                _told(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
            ),
            power_w=_watt(_told(pynvml.nvmlDeviceGetPowerUsage, handle)),
            utilisation=None if use is None else use.gpu / 100,
            memory_used_bytes=census.memory_used_bytes,
            throttle_reasons=throttle_reasons(bits or 0),
            processes=census.processes or (),
            unread=(
                *(("processes",) if census.processes is None else ()),
                *(("throttle_reasons",) if bits is None else ()),
            ),
        )

    def _census(self, uuid: str, handle: Any, now_s: float) -> _Census:
        last = self._censuses.get(uuid)
        if last is None or not 0 <= now_s - last.at_s < CENSUS_S:
            last = self._censuses[uuid] = _counted(handle, now_s)
        return last

    def _handle(self, uuid: str) -> Any:
        with self._lock:
            if self._dead:
                return None
            if uuid not in self._handles:
                try:
                    if not self._handles:
                        pynvml.nvmlInit()
                    self._handles[uuid] = pynvml.nvmlDeviceGetHandleByUUID(uuid)
                except pynvml.NVMLError:
                    self._dead = not self._handles
                    return None
            return self._handles[uuid]


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """Names of the bits that hold clocks down, sorted."""
    return tuple(sorted(name for bit, name in THROTTLE_REASONS.items() if bits & bit))


def _told(question: Callable[..., Any], *arguments: Any) -> Any:
    """The answer; None where this GPU or driver doesn't have it."""
    try:
        return question(*arguments)
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):
        return None


def _counted(handle: Any, now_s: float) -> _Census:
    memory, processes = _told(pynvml.nvmlDeviceGetMemoryInfo, handle), _processes(handle)
    return _Census(
        now_s,
        None if memory is None else int(memory.used),
        None if processes is None else tuple(sorted(process.pid for process in processes)),
    )


def _processes(handle: Any) -> Any:
    """Whoever computes; by the older call where the driver is too old for the newer one."""
    listed = _told(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    if listed is None:
        listed = _told(pynvml.nvmlDeviceGetComputeRunningProcesses_v2, handle)
    return listed


def _clock(question: Callable[..., Any], handle: Any, which: int) -> float | None:
    megahertz = _told(question, handle, which)
    return None if megahertz is None else megahertz * _MEGA


def _watt(milliwatt: int | None) -> float | None:
    return None if milliwatt is None else milliwatt / 1000


def _margin(handle: Any) -> float | None:
    """Bindings before version 12.575 don't have it; the driver since 550."""
    question = getattr(pynvml, "nvmlDeviceGetMarginTemperature", None)
    return None if question is None else _number(_told(question, handle))


def _number(value: int | None) -> float | None:
    return None if value is None else float(value)


def _string(text: str | bytes | None) -> str | None:
    """Bindings before version 11.5 answer in bytes."""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _cuda_version(number: int | None) -> str | None:
    """13000 is CUDA 13.0."""
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"
