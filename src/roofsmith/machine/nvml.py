"""NVML, NVIDIA's management library: how a GPU is set up, and how it is right now."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pynvml

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


@dataclass(frozen=True, slots=True)
class GpuSettings:
    """How a GPU is set up; what the driver doesn't tell is None."""

    uuid: str
    driver: str | None = None
    max_sm_clock_hz: float | None = None
    max_memory_clock_hz: float | None = None
    sm_clock_hz: float | None = None
    """At the moment of asking, as power draw and temperatures are."""
    application_clock_hz: float | None = None
    """What the SM clock is set to under load; equal to the maximum unless somebody lowered it."""
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    power_draw_w: float | None = None
    temperature_c: float | None = None
    thermal_margin_c: float | None = None
    """How much hotter it may get before it slows down."""
    ecc: bool | None = None
    mig: bool | None = None
    persistence: bool | None = None
    compute_mode: str | None = None


def told(question: str, *arguments: Any, library: Any = pynvml) -> Any:
    """The answer of a function of NVML; None where this GPU, driver or binding doesn't have it."""
    try:
        return getattr(library, question)(*arguments)
    except (
        pynvml.NVMLError,
        pynvml.NVMLLibraryMismatchError,  # the binding's own: the driver is older than a question
        AttributeError,
        UnicodeDecodeError,
    ):
        return None


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
    ecc, mig = told("nvmlDeviceGetEccMode", handle), told("nvmlDeviceGetMigMode", handle)
    persistence = told("nvmlDeviceGetPersistenceMode", handle)
    graphics = pynvml.NVML_CLOCK_GRAPHICS
    return GpuSettings(
        uuid=uuid,
        driver=_string(told("nvmlSystemGetDriverVersion")),
        max_sm_clock_hz=_clock("nvmlDeviceGetMaxClockInfo", handle, pynvml.NVML_CLOCK_SM),
        max_memory_clock_hz=_clock("nvmlDeviceGetMaxClockInfo", handle, pynvml.NVML_CLOCK_MEM),
        sm_clock_hz=_clock("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_SM),
        application_clock_hz=_clock("nvmlDeviceGetApplicationsClock", handle, graphics),
        power_limit_w=_watt("nvmlDeviceGetEnforcedPowerLimit", handle),
        default_power_limit_w=_watt("nvmlDeviceGetPowerManagementDefaultLimit", handle),
        power_draw_w=_watt("nvmlDeviceGetPowerUsage", handle),
        temperature_c=_temperature(handle),
        # Bindings before version 12.575 don't have it; the driver since 550.
        thermal_margin_c=_number(told("nvmlDeviceGetMarginTemperature", handle)),
        ecc=None if ecc is None else bool(ecc[0]),
        mig=None if mig is None else bool(mig[0]),
        persistence=None if persistence is None else bool(persistence),
        compute_mode=COMPUTE_MODES.get(told("nvmlDeviceGetComputeMode", handle)),
    )


@dataclass(frozen=True, slots=True)
class _Census:
    """Who computes on a GPU; what the driver doesn't tell is None."""

    at_s: float
    memory_used_bytes: int | None
    processes: tuple[int, ...] | None


@dataclass(slots=True)
class NvmlHealth:
    """A GPU's sensors by NVML, opened at the first sample, and kept open; never a reason to fail.

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
        use = told("nvmlDeviceGetUtilizationRates", handle)
        bits = told("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        now_s = self.clock()
        census = self._census(uuid, handle, now_s)
        return Health(
            uuid=uuid,
            at_s=now_s,
            sm_clock_hz=_clock("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_SM),
            memory_clock_hz=_clock("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_MEM),
            temperature_c=_temperature(handle),
            power_w=_watt("nvmlDeviceGetPowerUsage", handle),
            utilisation=None if use is None else use.gpu / 100,
            memory_used_bytes=census.memory_used_bytes,
            throttle_reasons=throttle_reasons(bits or 0),
            processes=census.processes or (),
            unread=(
                *(("processes",) if census.processes is None else ()),
                *(("throttle_reasons",) if bits is None else ()),
            ),
        )

    def worked(self, uuid: str, since_s: float) -> frozenset[int] | None:
        """Processes whose kernels ran on a GPU since a time of the Unix clock, in a millisecond or
        two; None where the driver doesn't tell, as of a MIG instance."""
        since_us = int(since_s * _MEGA)
        handle = self._handle(uuid)
        try:
            found = pynvml.nvmlDeviceGetProcessUtilization(handle, since_us)
        except pynvml.NVMLError_NotFound:  # nobody did
            return frozenset()
        except (pynvml.NVMLError, TypeError, AttributeError):
            return None
        return frozenset(one.pid for one in found if one.smUtil and one.timeStamp > since_us)

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


def running(handle: Any, library: Any = pynvml) -> Any:
    """Whoever computes; by the older call where the driver is too old for the newer one."""
    question = "nvmlDeviceGetComputeRunningProcesses"
    listed = told(question, handle, library=library)
    return told(f"{question}_v2", handle, library=library) if listed is None else listed


def _counted(handle: Any, now_s: float) -> _Census:
    memory, processes = told("nvmlDeviceGetMemoryInfo", handle), running(handle)
    return _Census(
        now_s,
        None if memory is None else int(memory.used),
        None if processes is None else tuple(sorted(process.pid for process in processes)),
    )


def _clock(question: str, handle: Any, which: int) -> float | None:
    megahertz = told(question, handle, which)
    return None if megahertz is None else megahertz * _MEGA


def _watt(question: str, handle: Any) -> float | None:
    milliwatt = told(question, handle)
    return None if milliwatt is None else milliwatt / 1000


def _temperature(handle: Any) -> float | None:
    return _number(told("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU))


def _number(value: int | None) -> float | None:
    return None if value is None else float(value)


def _string(text: str | bytes | None) -> str | None:
    """Bindings before version 11.5 answer in bytes."""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text
